"""Ways in which a mean can reach a density unseen by a look at code, closures or attributes."""

import functools
import importlib
import os
import sys
import tempfile
import types
from collections import ChainMap, namedtuple
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from support.plain import AFTER, BEFORE, Changed

MODULE: Any = types.ModuleType("aide_hidden_settings")
MODULE.mean = BEFORE
HIDDEN = BEFORE
VARIABLE: ContextVar[float] = ContextVar("mean", default=BEFORE)


def _module_in_a_closure():
    module = MODULE
    return Changed(lambda: module.mean, lambda: setattr(module, "mean", AFTER))


def _module_as_an_attribute():
    class Owner:
        settings = MODULE

        def read(self):
            return self.settings.mean

    return Changed(Owner().read, lambda: setattr(MODULE, "mean", AFTER))


def _module_imported_inside():
    def read():
        import aide_hidden_settings  # pyrefly: ignore[missing-import]

        return aide_hidden_settings.mean

    return Changed(read, lambda: setattr(MODULE, "mean", AFTER))


def _module_by_name():
    read = lambda: importlib.import_module("aide_hidden_settings").mean
    return Changed(read, lambda: setattr(MODULE, "mean", AFTER))


def _module_by_getattr():
    return Changed(lambda: getattr(MODULE, "me" + "an"), lambda: setattr(MODULE, "mean", AFTER))


def _globals_by_name():
    return Changed(lambda: globals()["HIDDEN"], lambda: globals().update(HIDDEN=AFTER))


def _environment():
    os.environ["AIDE_HIDDEN"] = str(BEFORE)
    read = lambda: float(os.environ["AIDE_HIDDEN"])
    return Changed(read, lambda: os.environ.update(AIDE_HIDDEN=str(AFTER)))


def _class_made_inside():
    means = [BEFORE]

    def read():
        class Made:
            def __init__(self, mean=means[0]):
                self.mean = mean

        return Made().mean

    return Changed(read, lambda: means.__setitem__(0, AFTER))


def _default_factory():
    def make(mean):
        @dataclass
        class Made:
            mean: float = field(default_factory=lambda: mean)

        return lambda: Made().mean

    return Changed(make(BEFORE), lambda: make(AFTER))


def _init_of_a_class():
    class Edited:
        def __init__(self):
            self.mean = BEFORE

    def edit():
        def init(self):
            self.mean = AFTER

        Edited.__init__ = init  # pyrefly: ignore

    return Changed(lambda: Edited().mean, edit)


def _wrapped():
    box = [BEFORE]

    def inner():
        return 0.0

    @functools.wraps(inner)
    def read():
        return box[0]

    return Changed(read, lambda: box.__setitem__(0, AFTER))


def _mask():
    data = np.ma.masked_array([BEFORE, AFTER], mask=[False, True])

    def change():
        data.mask = [True, False]

    return Changed(lambda: float(data.compressed()[0]), change)


def _attribute_of(kind, *arguments):
    """An attribute of an instance of a subclass of a built-in type."""

    def build():
        subclass = type("Sub", (kind,), {})
        thing = subclass(*arguments)
        thing.mean = BEFORE
        return Changed(lambda: thing.mean, lambda: setattr(thing, "mean", AFTER))

    return build


def _attribute_of_an_array():
    class Array(np.ndarray):
        mean: float  # pyrefly: ignore[bad-override-mutable-attribute]

    thing = np.zeros(2).view(Array)
    thing.mean = BEFORE
    return Changed(lambda: thing.mean, lambda: setattr(thing, "mean", AFTER))


def _bound_builtin_of_a_dict():
    data = {"mean": BEFORE}
    return Changed(functools.partial(data.get, "mean"), lambda: data.update(mean=AFTER))


def _bound_builtin_of_an_array():
    data = np.array(BEFORE)
    return Changed(data.item, lambda: data.__setitem__((), AFTER))


def _metaclass():
    class Meta(type):
        mean = BEFORE

    class Made(metaclass=Meta):
        pass

    return Changed(lambda: Made.mean, lambda: setattr(Meta, "mean", AFTER))


def _namespace_of_exec():
    space: dict[str, Any] = {"mean": BEFORE}
    exec("def read():\n    return mean", space)
    return Changed(space["read"], lambda: space.update(mean=AFTER))


def _iterator_state():
    box = iter([BEFORE, AFTER])
    state = [next(box)]
    return Changed(lambda: state[0], lambda: state.__setitem__(0, next(box)))


def _file():
    handle, path = tempfile.mkstemp()
    os.write(handle, str(BEFORE).encode())
    os.close(handle)

    def change():
        Path(path).write_text(str(AFTER))

    return Changed(lambda: float(Path(path).read_text()), change)


def _context_variable():
    return Changed(VARIABLE.get, lambda: VARIABLE.set(AFTER) and None)


def _slots():
    class Slotted:
        __slots__ = ("mean",)
        mean: float

    thing = Slotted()
    thing.mean = BEFORE
    return Changed(lambda: thing.mean, lambda: setattr(thing, "mean", AFTER))


def _property():
    class Owner:
        hidden = BEFORE

        @property
        def mean(self):
            return type(self).hidden

    return Changed(lambda: Owner().mean, lambda: setattr(Owner, "hidden", AFTER))


def _descriptor():
    values = {"mean": BEFORE}

    class Descriptor:
        def __get__(self, thing, kind=None):
            return values["mean"]

    class Owner:
        mean = Descriptor()

    return Changed(lambda: Owner().mean, lambda: values.update(mean=AFTER))


def _dynamic_attribute():
    class Owner:
        def __getattr__(self, name):
            return {"mean": HIDDEN}[name]

    return Changed(lambda: Owner().mean, lambda: globals().update(HIDDEN=AFTER))


def _module_getattr():
    module: Any = types.ModuleType("dynamic")
    module.__getattr__ = lambda name: HIDDEN
    return Changed(lambda: module.mean, lambda: globals().update(HIDDEN=AFTER))


def _chain_map():
    data = ChainMap({}, {"mean": BEFORE})
    return Changed(lambda: data["mean"], lambda: data.maps.insert(0, {"mean": AFTER}))


def _named_tuple_default():
    Point = namedtuple("Point", "mean", defaults=[BEFORE])
    return Changed(lambda: Point().mean, lambda: setattr(Point.__new__, "__defaults__", (AFTER,)))


def _keyword_default():
    def read(*, mean=BEFORE):
        return mean

    return Changed(read, lambda: read.__kwdefaults__.update(mean=AFTER))  # pyrefly: ignore


def _cached_function():
    box = [BEFORE]

    @functools.cache
    def cached():
        return box[0]

    return Changed(cached, lambda: (box.__setitem__(0, AFTER), cached.cache_clear()) and None)


def _single_dispatch():
    @functools.singledispatch
    def mean(thing):
        return BEFORE

    return Changed(lambda: mean(1), lambda: mean.register(int, lambda thing: AFTER) and None)


def _sys_attribute():
    sys.aide_hidden = BEFORE  # pyrefly: ignore
    read = lambda: sys.aide_hidden  # pyrefly: ignore[missing-attribute]
    return Changed(read, lambda: setattr(sys, "aide_hidden", AFTER))


def _weak_memory():
    buffer = bytearray(np.float64(BEFORE).tobytes())
    data = np.frombuffer(buffer)
    return Changed(
        lambda: data[0], lambda: buffer.__setitem__(slice(0, 8), np.float64(AFTER).tobytes())
    )


def _base_class():
    class Base:
        def read(self):
            return BEFORE

    class Other:
        def read(self):
            return AFTER

    class Own(Base):
        pass

    thing = Own()
    return Changed(lambda: thing.read(), lambda: setattr(Own, "__bases__", (Other,)))


def _class_of_an_object():
    class One:
        mean = BEFORE

    class Two:
        mean = AFTER

    thing = One()
    return Changed(lambda: thing.mean, lambda: setattr(thing, "__class__", Two))


def _static_field_that_claims_to_be_equal():
    class Setting:
        def __init__(self, mean):
            self.mean = mean

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    class Model(eqx.Module):
        setting: Any = eqx.field(static=True)

        def __call__(self):
            return self.setting.mean

    return Changed(Model(Setting(BEFORE)), lambda: Model(Setting(AFTER)))


def _jitted_global():
    jitted = jax.jit(lambda: jnp.asarray(HIDDEN))
    jitted()
    return Changed(jitted, lambda: globals().update(HIDDEN=AFTER))


def _jitted_inside_a_loop():
    def body(carry, _):
        return carry + HIDDEN, None

    jitted = jax.jit(lambda: jax.lax.scan(body, jnp.asarray(0.0), None, length=1)[0])
    jitted()
    return Changed(jitted, lambda: globals().update(HIDDEN=AFTER))


def _branch():
    def read():
        return jax.lax.cond(jnp.asarray(True), lambda: jnp.asarray(HIDDEN), lambda: jnp.zeros(()))

    return Changed(read, lambda: globals().update(HIDDEN=AFTER))


def _custom_derivative():
    @jax.custom_jvp
    def add(x):
        return x + HIDDEN

    add.defjvp(lambda primals, tangents: (add(*primals), tangents[0]))
    return Changed(lambda: add(jnp.zeros(())), lambda: globals().update(HIDDEN=AFTER))


def _checkpointed():
    read = jax.checkpoint(lambda x: x + HIDDEN)
    return Changed(lambda: read(jnp.zeros(())), lambda: globals().update(HIDDEN=AFTER))


WAYS: dict[str, Any] = {
    "a module held in a closure": _module_in_a_closure,
    "a module as an attribute": _module_as_an_attribute,
    "a module imported inside": _module_imported_inside,
    "a module imported by name": _module_by_name,
    "getattr of a module": _module_by_getattr,
    "globals()": _globals_by_name,
    "os.environ": _environment,
    "a class made inside": _class_made_inside,
    "a default factory": _default_factory,
    "__init__ of a class": _init_of_a_class,
    "an object with __wrapped__": _wrapped,
    "the mask of an array": _mask,
    "an attribute of a list": _attribute_of(list, [0.0]),
    "an attribute of a dict": _attribute_of(dict),
    "an attribute of a float": _attribute_of(float, 0.0),
    "an attribute of an int": _attribute_of(int, 0),
    "an attribute of a str": _attribute_of(str, ""),
    "an attribute of an array": _attribute_of_an_array,
    "dict.get": _bound_builtin_of_a_dict,
    "array.item": _bound_builtin_of_an_array,
    "an attribute of a metaclass": _metaclass,
    "the namespace of exec": _namespace_of_exec,
    "the state of an iterator": _iterator_state,
    "a file": _file,
    "a context variable": _context_variable,
    "a slot": _slots,
    "a property": _property,
    "a descriptor": _descriptor,
    "__getattr__ of an object": _dynamic_attribute,
    "__getattr__ of a module": _module_getattr,
    "a ChainMap": _chain_map,
    "defaults of a namedtuple": _named_tuple_default,
    "keyword defaults": _keyword_default,
    "a cached function": _cached_function,
    "single dispatch": _single_dispatch,
    "an attribute of sys": _sys_attribute,
    "memory shared with a buffer": _weak_memory,
    "the base of a class": _base_class,
    "the class of an object": _class_of_an_object,
    "a static field that claims to be equal": _static_field_that_claims_to_be_equal,
    "a jitted function": _jitted_global,
    "a loop inside a jitted function": _jitted_inside_a_loop,
    "a branch": _branch,
    "a custom derivative": _custom_derivative,
    "a checkpointed function": _checkpointed,
}


def as_before() -> None:
    """Set everything that a way may have changed for all to what it was."""
    MODULE.mean = BEFORE
    globals()["HIDDEN"] = BEFORE
    os.environ.pop("AIDE_HIDDEN", None)
    if hasattr(sys, "aide_hidden"):
        del sys.aide_hidden

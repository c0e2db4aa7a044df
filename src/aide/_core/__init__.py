"""The formalism and the arithmetic everything stands on."""

"""How a report looks: light and dark, wide and narrow, on paper."""

STYLE = """
:root{color-scheme:light dark;--ground:#fdfdfb;--ink:#1c1f24;--soft:#5c6370;--line:#dcdcd6;
--passed:#1d7a46;--failed:#b3392f;--undecided:#8a6d00;--card:#f4f4ef}
@media(prefers-color-scheme:dark){:root{--ground:#15181d;--ink:#e8e8e3;--soft:#a2a9b4;
--line:#343a44;--passed:#62c98e;--failed:#f08d82;--undecided:#e0c050;--card:#1d2127}
figure img{filter:invert(.9) hue-rotate(180deg)}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1rem 0 .3rem}
.kicker{margin:0;color:var(--soft);font-size:.85rem}
.verdict{font-size:1.15rem;padding:.8rem 1rem;border-left:.35rem solid var(--soft);
background:var(--card);overflow-wrap:anywhere}
.verdict.passed{border-color:var(--passed)}.verdict.failed{border-color:var(--failed)}
.verdict.undecided{border-color:var(--undecided)}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);}
td:first-child{white-space:normal;overflow-wrap:anywhere;min-width:7rem}
dl{display:grid;grid-template-columns:minmax(6rem,max-content) 1fr;gap:.15rem 1rem;margin:.5rem 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1rem}
figure{margin:0;padding:.5rem;background:var(--card);border-radius:.4rem}
figure img{width:100%;height:auto}
figcaption{color:var(--soft);font-size:.85rem;overflow-wrap:anywhere}
details{margin:.6rem 0;border:1px solid var(--line);border-radius:.4rem;padding:.4rem .8rem}
summary{cursor:pointer;font-weight:600;overflow-wrap:anywhere}
pre{overflow-x:auto;background:var(--card);padding:.6rem;font-size:.85rem}
@media(max-width:34rem){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
@media print{body{background:#fff;color:#000;font-size:11pt}figure,details{break-inside:avoid}
figure img{filter:none}}
"""

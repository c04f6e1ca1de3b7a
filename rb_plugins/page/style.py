"""How a page looks, in light and dark, on paper and phone; colours are those of Okabe and Ito (2008), with patterns."""

from __future__ import annotations

from rb_plugins.page.markup import Markup, element

CSS = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#57606a;--line:#d5d9de;--tint:#f3f5f7;--tint2:#e6eaee;
--train:#0072b2;--start:#56b4e9;--launch:#b36b00;--save:#c2410c;--idle:#8c959f;--good:#007a5a;--bad:#b3261e;
--band:#cfe3f3;--focus:#0072b2}
@media(prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e6e8ea;--soft:#a3abb3;--line:#353b41;--tint:#1d2125;
--tint2:#292e34;--train:#3f9fd8;--start:#8fd0f5;--launch:#e69f00;--save:#f08a4b;--idle:#7d868f;--good:#2bc199;
--bad:#ff8a80;--band:#1f3d54;--focus:#8fd0f5}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
overflow-wrap:anywhere}
header,main,footer{max-width:1080px;margin:0 auto;padding:0 16px}
header{padding-top:24px}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 2px}
h2{font-size:1.15rem;margin:40px 0 4px;padding-top:12px;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:20px 0 4px}
p{margin:4px 0 12px;max-width:72ch}
.lead,figcaption,.none,.readout{color:var(--soft)}
figcaption,.readout,.legend{font-size:.82rem}
a{color:var(--train)}
.notice{border-left:4px solid var(--launch);padding:8px 12px;background:var(--tint)}
.skip{position:absolute;left:-999px}
.skip:focus{left:8px;top:8px;background:var(--bg);padding:8px 12px;z-index:1}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px}
nav ul,.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 16px;margin:12px 0;padding:0}
nav a{display:inline-block;padding:4px 0}
.legend li{display:flex;align-items:center;gap:6px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:1px;margin:16px 0;
padding:1px}
.figures div{box-shadow:0 0 0 1px var(--line);padding:10px 12px}
dt{font-size:.78rem;color:var(--soft)}
dd{margin:0;font-size:.82rem;color:var(--soft)}
dd b{display:block;font-size:1.15rem;font-weight:600;color:var(--fg);font-variant-numeric:tabular-nums}
figure{margin:12px 0}
.frame{display:flex}
.gutter{flex:none}
.field{flex:1;min-width:0;overflow:visible;display:block}
.readout{display:block;min-height:1.6em}
svg text{fill:var(--fg);font-size:11px}
.label{text-anchor:end}
svg .label,svg .tick{fill:var(--soft)}
.grid{stroke:var(--line);stroke-width:1;opacity:.7}
.axis{stroke:var(--soft)}
.barrier{stroke:var(--soft);stroke-dasharray:2 3}
.marks{position:relative;height:24px;margin-left:76px}
.marks.coarse{display:none}
.v{display:inline-flex;align-items:baseline;justify-content:center;min-width:18px;height:18px;padding:0 2px;
font-size:11px;line-height:16px;font-weight:700;text-decoration:none;border:1px solid currentColor;border-radius:3px;
background:var(--bg);color:var(--fg)}
.marks .v{position:absolute;top:2px;transform:translateX(-50%);z-index:1}
.marks .v::after{content:"";position:absolute;inset:-4px -3px}
.v sub{font-size:9px;line-height:1;vertical-align:baseline;margin-left:1px}
.v-fault,.v-break{background:var(--bad);border-color:var(--bad);color:var(--bg)}
.v-change{border-radius:9px;border-color:var(--train);color:var(--train)}
.v-resumed{border-color:var(--good);color:var(--good)}
.event{stroke:var(--soft);opacity:.55}
.event.v-fault,.event.v-break{stroke:var(--bad)}.event.v-change{stroke:var(--train)}
tr{scroll-margin-top:64px}
tr:target{background:var(--tint2);outline:2px solid var(--focus)}
.stage{stroke:none}.s0{fill:var(--tint)}.s1{fill:var(--tint2)}
.hit{fill:transparent}
.row:hover .hit,.row.on .hit{fill:var(--tint2)}
.d-launching{fill:url(#launching);stroke:var(--launch)}
.d-starting{fill:url(#starting);stroke:var(--start)}
.d-training{fill:var(--train)}
.d-saving{fill:url(#saving);stroke:var(--save)}
.d-idle{fill:url(#idle);stroke:none}
.a-launching{fill:var(--launch)}.a-starting{fill:var(--start)}.a-training{fill:var(--train)}
.a-saving{fill:var(--save)}.a-idle{fill:url(#idle)}
[class^=d-]{stroke-width:.75}
svg .mark{font-size:13px;font-weight:700}
svg .e-finished{fill:var(--good)}svg .e-failed,svg .e-lost{fill:var(--bad)}svg .e-stopped{fill:var(--soft)}
.curve,.median,.spent,.limit{fill:none;vector-effect:non-scaling-stroke;stroke-width:1.25}
.curve{stroke:var(--idle);opacity:.75}
.c-finished{stroke:var(--good);opacity:1}
.c-failed{stroke:var(--bad);stroke-dasharray:4 3}
.c-best{stroke:var(--train);stroke-width:2.75;opacity:1}
.band{fill:var(--band)}
.median{stroke:var(--fg);stroke-dasharray:5 4}
.spent{stroke:var(--train);stroke-width:2.75}
.limit{stroke:var(--bad);stroke-dasharray:8 3 2 3}
.p-mean{fill:none;stroke:var(--fg);stroke-width:1.5}.p-start{fill:var(--train)}
.bar{fill:var(--train)}
.bars{min-width:120px;width:40%}
.scroll{overflow-x:auto;margin:8px 0 16px}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;width:100%;overflow-wrap:normal}
caption{text-align:left;font-weight:600;padding:4px 0}
caption span{display:inline-block;position:sticky;left:0;max-width:min(100vw - 32px,1048px)}
th,td{padding:4px 10px;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}
th:first-child,td:first-child{padding-left:0}
td.w,th.w,tbody th,th:first-child{text-align:left}
td.w{min-width:16ch;max-width:60ch;overflow-wrap:anywhere}
thead th{color:var(--soft);font-weight:500}
tbody th{font-weight:500;white-space:nowrap}
td:not(.w){white-space:nowrap}
td small{display:block;font-size:.78rem;color:var(--soft)}
tbody tr:hover{background:var(--tint)}
summary{cursor:pointer;padding:6px 0;color:var(--train)}
pre{background:var(--tint);padding:10px 12px;overflow:auto;max-height:480px;white-space:pre-wrap;font-size:.82rem;
margin:4px 0 12px}
footer{margin:40px auto 24px;padding-top:12px;border-top:1px solid var(--line);color:var(--soft);font-size:.82rem}
@media(max-width:640px){.wide,.marks.fine{display:none}.marks.coarse{display:block}
.bars{min-width:48px}#shares th{white-space:normal}
.figures div:last-child:nth-child(odd){grid-column:1/-1}}
@media(prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
@media print{nav,.skip,.readout{display:none}details>*{display:block}}
"""

SCRIPT = """
for(const frame of document.querySelectorAll('.frame')){
const rows=[...frame.querySelectorAll('.row')],told=frame.parentNode.querySelector('.readout');
if(!rows.length||!told)continue;
let at=-1;
const show=n=>{if(at>=0)rows[at].classList.remove('on');at=n;rows[at].classList.add('on');
told.textContent=rows[at].dataset.words};
rows.forEach((row,n)=>row.addEventListener('click',()=>show(n)));
frame.addEventListener('keydown',e=>{
const next={ArrowDown:Math.min(rows.length-1,at+1),ArrowUp:Math.max(0,at-1),Home:0,End:rows.length-1}[e.key];
if(next===undefined)return;e.preventDefault();show(next)})}
for(const lane of document.querySelectorAll('.marks')){
const all=[...lane.children],told=lane.parentNode.querySelector('.readout');
const choose=n=>all.forEach((mark,i)=>mark.tabIndex=i===n?0:-1);
choose(0);
all.forEach((mark,n)=>{mark.addEventListener('focus',()=>{choose(n);told.textContent=mark.dataset.words});
mark.addEventListener('keydown',e=>{
const next={ArrowRight:n+1,ArrowLeft:n-1,Home:0,End:all.length-1}[e.key];
if(!all[next])return;e.preventDefault();all[next].focus()})})}
const reveal=()=>{const row=document.getElementById(location.hash.slice(1));
const fold=row&&row.closest('details:not([open])');
if(fold){fold.open=true;row.scrollIntoView()}};
addEventListener('hashchange',reveal);reveal();
"""


def patterns() -> Markup:
    """The patterns that the colours go with, to be used by all charts of the page."""

    def pattern(name: str, *shapes: Markup) -> Markup:
        return element("pattern", *shapes, id=name, width=6, height=6, patternUnits="userSpaceOnUse")

    def stroke(d: str, colour: str, width: float) -> Markup:
        return element("path", d=d, stroke=f"var(--{colour})", stroke_width=width, fill="none")

    return element(
        "svg",
        element(
            "defs",
            pattern("launching", stroke("M-1 1L1 -1M0 6L6 0M5 7L7 5", "launch", 1.5)),
            pattern("starting", element("rect", width=6, height=6, fill="var(--start)", opacity=0.45),
                    element("circle", cx=3, cy=3, r=1.4, fill="var(--train)")),
            pattern("saving", element("rect", width=6, height=6, fill="var(--save)", opacity=0.5),
                    stroke("M1 0V6M4 0V6", "save", 1.5)),
            pattern("idle", stroke("M0 1.5H6M0 4.5H6", "idle", 0.8)),
        ),
        width=0, height=0, aria_hidden="true", style="position:absolute",
    )  # fmt: skip

"""The style sheet of the page, and the script of its tooltips.

Nothing is fetched: fonts are those of the system, and there are colours for light and dark. Without
JavaScript only tooltips are missing, and each plot has a table of its numbers.
"""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#15181d;--soft:#5a6270;--faint:#e4e7ec;
--line:#c3c8d1;--empty:#eceef2;--good:#0a7a3d;--bad:#b3261e;--mark:#fff3d1;
--c0:#2a78d6;--c1:#eb6834;--c2:#1baf7a;--c3:#eda100;--c4:#e0589a;--c5:#4f8a10;--c6:#6a4fc0;--c7:#e34948;
--cx:#9aa1ac;--idle:#d3d7de}
@media (prefers-color-scheme:dark){:root{--page:#101216;--card:#181b21;--ink:#eceef2;--soft:#a3abb8;
--faint:#2a2f38;--line:#4a515d;--empty:#23272f;--good:#5ccb8b;--bad:#ff8a80;--mark:#3d3516;
--c0:#4c94ec;--c1:#e8733f;--c2:#26b383;--c3:#d69a1c;--c4:#e06fa6;--c5:#7cb342;--c6:#9c8cf0;--c7:#ee6b6a;
--cx:#7b838f;--idle:#3a404a}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 24px 56px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:19px;margin:36px 0 10px}
h3{font-size:15px;margin:0 0 2px;overflow-wrap:anywhere}
h4{font-size:14px;margin:0;overflow-wrap:anywhere}
.lead,.note,figcaption p{color:var(--soft);margin:0 0 12px;max-width:84ch}
figcaption p{font-size:13px;margin:0 0 8px;max-width:none}
.grid{display:grid;gap:16px;grid-template-columns:repeat(2,minmax(0,1fr))}
.of-3{grid-template-columns:repeat(3,minmax(0,1fr))}.of-4{grid-template-columns:repeat(4,minmax(0,1fr))}
@media (max-width:820px){.grid,.of-3,.of-4{grid-template-columns:minmax(0,1fr)}}
figure,.card,.scroll{background:var(--card);border:1px solid var(--faint);border-radius:10px}
figure{margin:0;padding:14px 16px 10px;min-width:0;display:flex;flex-direction:column}
figure.wide{margin-bottom:16px}
figure .scroll{border:0;border-radius:0;padding:0}
figure details{margin-top:auto}
svg.plot{display:block;width:100%;height:auto;overflow:visible}
.tick,.node,.axis-title{font-size:11.5px;fill:var(--soft)}.node{font-size:10.5px}
.axis-title{font-size:11.5px}.end{text-anchor:end}.middle{text-anchor:middle}
.grid-line{stroke:var(--faint);fill:none}.axis{stroke:var(--line);fill:none}
.line,.edge{fill:none;stroke:currentColor;stroke-width:1.8;stroke-linejoin:round}
.edge{stroke-width:1}.area{fill:currentColor;fill-opacity:.75}.pale{fill-opacity:.16}
.aside{color:var(--soft);stroke-dasharray:5 4;stroke-width:1.5}.ink{color:var(--ink)}
.held{fill:currentColor}.empty{fill:var(--empty)}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}
.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}.cx{color:var(--cx)}.idle{color:var(--idle)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;margin:6px 0 6px;padding:0;font-size:13px;
color:var(--soft)}
.legend li{overflow-wrap:anywhere}
.key{display:inline-block;width:14px;height:10px;border-radius:2px;background:currentColor;margin-right:7px}
.key.aside{height:0;background:none;border-top:2px dashed currentColor;vertical-align:3px;border-radius:0}
.key.empty{background:var(--empty);border:1px solid var(--line)}
details{font-size:13px}summary{cursor:pointer;color:var(--soft);padding:2px 0}
.scroll{overflow-x:auto;padding:4px 14px;margin-bottom:12px;position:relative}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:14px}
th,td{padding:5px 7px;text-align:right;border-bottom:1px solid var(--faint);white-space:nowrap}
th:first-child{text-align:left;padding-left:2px}tbody tr:last-child>*{border-bottom:0}
thead th{color:var(--soft);font-weight:600;font-size:12.5px}tbody th{font-weight:500}
th{max-width:32ch;overflow:hidden;text-overflow:ellipsis}
.headline thead th{color:var(--ink);font-size:14px}
.headline .group th{color:var(--soft);font-weight:600;font-size:12px;padding-top:14px;text-align:left}
.best{font-weight:700;background:var(--mark);border-radius:4px;padding:1px 6px;margin-right:-6px}
.change{display:inline-block;min-width:5.5em;color:var(--soft);font-size:13px}
.headline tr>td:nth-child(2) .change{display:none}
.good{color:var(--good)}.bad{color:var(--bad)}
.cards{columns:3;column-gap:16px}@media (max-width:980px){.cards{columns:2}}
@media (max-width:640px){.cards{columns:1}}
.card{padding:12px 16px;margin:0 0 16px;break-inside:avoid}
.card h3{color:var(--soft);font-size:13px;margin-bottom:4px}
dl{margin:0}dl div{display:flex;justify-content:space-between;gap:12px;padding:3px 0}
dt{color:var(--ink)}dd{margin:0;font-weight:600;font-variant-numeric:tabular-nums;white-space:nowrap}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.cross path{stroke:var(--soft);stroke-width:1}
#tip{position:fixed;pointer-events:none;display:none;background:var(--card);color:var(--ink);z-index:2;
border:1px solid var(--line);border-radius:8px;padding:7px 10px;font-size:13px;max-width:300px;
box-shadow:0 4px 16px rgb(0 0 0/.18);font-variant-numeric:tabular-nums}
#tip div{display:flex;gap:14px;justify-content:space-between}#tip b{font-weight:600}
footer{color:var(--soft);font-size:13px;margin-top:40px;max-width:90ch}
@media print{body{background:#fff}figure,.card{break-inside:avoid}details{display:none}}
"""

SCRIPT = """
(function(){
var tip=document.createElement('div');tip.id='tip';document.body.appendChild(tip);
function time(ms){var s=ms/1000,u=[[86400,'d'],[3600,'h'],[60,'min']];
for(var i=0;i<3;i++)if(s>=u[i][0])return(s/u[i][0]).toFixed(1)+' '+u[i][1];return s.toFixed(0)+' s'}
function write(v,form){if(form==='time')return time(v);if(form==='percent')return(100*v).toFixed(1)+' %';
var t=v>=100?Math.round(v).toLocaleString('en'):v.toFixed(1);return form==='dollars'?'$'+t:t}
function height(d,x){var y=null,at=-1e9,m,re=/([MHV])([-\\d.]+)(?: ([-\\d.]+))?/g;
while((m=re.exec(d))){if(m[1]==='M'){at=+m[2];y=+m[3];if(x<at)return null}
else if(m[1]==='H'){if(x<=+m[2])return y;at=+m[2]}else y=+m[2]}return null}
function row(name,value){var d=document.createElement('div'),n=document.createElement('span'),
b=document.createElement('b');n.textContent=name;b.textContent=value;d.append(n,b);return d}
document.querySelectorAll('svg[data-x]').forEach(function(svg){
var X=svg.dataset.x.split(' '),Y=svg.dataset.y.split(' '),B=svg.dataset.box.split(' ').map(Number),
cross=svg.querySelector('.cross'),paths=[].slice.call(svg.querySelectorAll('path[data-name]'));
function hide(){tip.style.display='none';cross.textContent=''}
svg.addEventListener('pointerleave',hide);
svg.addEventListener('pointermove',function(e){
var r=svg.getBoundingClientRect(),k=svg.viewBox.baseVal.width/r.width,x=(e.clientX-r.left)*k;
if(x<B[0]||x>B[0]+B[2])return hide();
var p=(x-B[0])/B[2],v=X[3]==='log'?1000*(Math.expm1(p*Math.log1p(X[1]/1000))):+X[0]+p*(X[1]-X[0]);
tip.textContent='';tip.appendChild(row(write(v,X[2]),''));var below=0;
paths.forEach(function(path){var y=height(path.getAttribute('d'),x);if(y===null)return;
var value=+Y[0]+(Y[1]-Y[0])*(1-(y-B[1])/B[3]);
if(path.dataset.stacked){var own=value-below;below=value;value=Math.max(0,own)}
tip.appendChild(row(path.dataset.name,write(value,Y[2])))});
cross.textContent='';var c=document.createElementNS(svg.namespaceURI,'path');
c.setAttribute('d','M'+x+' '+B[1]+'v'+B[3]);cross.appendChild(c);
tip.style.display='block';var w=tip.offsetWidth;
tip.style.left=Math.max(4,Math.min(innerWidth-w-8,e.clientX+14))+'px';
tip.style.top=Math.min(innerHeight-tip.offsetHeight-8,e.clientY+14)+'px'})})})();
"""

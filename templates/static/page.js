(function(){
var f=document.getElementById("challenge"),h=location.hash;
if(!f)return;
if(h){
if(f.action.indexOf("#")<0)f.action+=h;
document.querySelectorAll("a.keep").forEach(function(a){a.href+=h});
}
var p=f.querySelector("audio"),l=f.querySelector(".ways a");
if(p&&l&&p.play){
l.hidden=p.controls=false;
l.onclick=function(e){
e.preventDefault();
p.currentTime=0;
var r=p.play();
if(r)r.catch(function(){p.controls=true});
};
}
var g=f.querySelector(".arrows"),i=f.elements.rep;
if(g){
g.hidden=false;
g.onclick=function(e){if(e.target.type)i.value+=e.target.textContent};
i.onkeydown=function(e){
var a={ArrowUp:"↑",ArrowDown:"↓",ArrowLeft:"←",ArrowRight:"→"}[e.key];
if(!a)return;
e.preventDefault();
i.value+=a;
};
}
var v=window.visualViewport;
if(v)v.onresize=function(){if(v.scale===1&&document.activeElement===i)i.scrollIntoView({block:"nearest"})};
var w=document.getElementById("work");
if(!w||!window.Worker||!window.fetch||!window.AbortController)return;
var b=w.querySelector("button"),n=b.querySelector("span"),s=w.querySelector("[role=status]"),d=w.dataset,offer=b.textContent,brief=b.dataset.brief,run=null;
function name(full,short){
(n||b).textContent=full;
if(n){
b.setAttribute("aria-label",full);
b.dataset.brief=short;
}
}
function end(why){
if(run)run.abort();
run=null;
name(offer,brief);
s.textContent=d[why];
}
function send(key,rep,proof){
var old=f.elements.key.value,i=document.createElement("input");
i.type="hidden";
i.name="rep";
i.value=rep+proof;
f.prepend(i);
f.elements.key.value=key;
f.submit();
i.remove();
f.elements.key.value=old;
}
function begin(me){
var task;
fetch(f.action.split("#")[0],{method:"POST",body:new URLSearchParams({format:"json","new":"1",kind:"work"}),signal:me.signal})
.then(function(r){return r.json()})
.then(function(j){
if(run!==me)return;
task=j.captcha;
if(!task||!task.work)return end(j.type==="limited"?"limited":"failed");
var t=new Worker(d.url);
me.signal.onabort=function(){t.terminate()};
t.onerror=function(){if(run===me)end("failed")};
t.onmessage=function(e){
if(run!==me)return;
if(typeof e.data==="string"){
s.textContent=d.checking;
t.terminate();
if(!window.antirobotProof)return send(task.key,e.data,"");
antirobotProof(f.action,task.key).then(function(p){send(task.key,e.data,p)});
}else if(e.data>=.5&&s.textContent===d.running)s.textContent=d.half;
};
t.postMessage(task.work);
})
.catch(function(){if(run===me)end("failed")});
}
b.onclick=function(){
if(run)return end("stopped");
name(d.cancel,d.cancel);
s.textContent=d.running;
begin(run=new AbortController());
};
addEventListener("pageshow",function(e){if(e.persisted&&run)end("stopped")});
w.hidden=false;
})();

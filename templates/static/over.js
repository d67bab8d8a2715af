(function(){
var f=document.getElementById("challenge"),d=f&&f.dataset,url=d&&d.over,form=f&&f.elements.saved,c=window.BroadcastChannel&&new BroadcastChannel("antirobot"),sent,told;
if(!url||!window.fetch)return;
function look(then){
fetch(url+"&format=json",{redirect:"manual",cache:"no-store"}).then(function(r){if(r.type==="opaqueredirect")then()}).catch(function(){});
}
function thank(){
if(told)return;
told=true;
var m=document.querySelector("main"),h=m.querySelector("h1"),p=document.createElement("p"),to=f.elements.retpath,a;
document.title=h.textContent=d.heading;
p.tabIndex=-1;
p.setAttribute("role","status");
p.textContent=d.text;
m.replaceChildren(h,p);
document.querySelectorAll(".langs").forEach(function(e){e.remove()});
if(to){
a=m.appendChild(document.createElement("p")).appendChild(document.createElement("a"));
a.className="go";
a.href=to.value+location.hash;
a.textContent=d.again;
}
p.focus();
}
function over(){
if(told)return;
if(sent)thank();
else if(!form)location.reload();
}
function watch(then,looks){
setTimeout(function(){
if(told)return;
look(then);
if(looks>1)watch(then,looks-1);
},1500);
}
function send(){
if(!sent)watch(thank,40);
sent=true;
if(c)c.postMessage({type:"answered",origin:location.origin});
}
f.addEventListener("submit",send);
f.submit=function(){
send();
HTMLFormElement.prototype.submit.call(f);
};
if(c)c.onmessage=function(e){
var type=e.data&&e.data.type;
if(type==="passed")look(over);
if(type==="answered")watch(over,5);
};
addEventListener("pageshow",function(e){
if(!e.persisted)return;
if(!form)sent=told=false;
look(over);
});
document.addEventListener("visibilitychange",function(){if(!document.hidden)look(over)});
})();

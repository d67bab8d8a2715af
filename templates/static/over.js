(function(){
var f=document.getElementById("challenge"),d=f&&f.dataset,url=d&&d.over,form=f&&f.elements.saved,c=window.BroadcastChannel&&new BroadcastChannel("antirobot"),sent,told,left;
if(!url||!window.fetch)return;
function look(then){
fetch(url+"&format=json",{redirect:"manual",cache:"no-store"}).then(function(r){if(r.type==="opaqueredirect")then()}).catch(function(){});
}
function tell(){if(c)c.postMessage({type:"answered",origin:location.origin})}
function thank(){
if(told)return;
told=true;
tell();
var m=document.querySelector("main"),h=m.querySelector("h1"),p=document.createElement("p"),a=f.elements.retpath;
document.title=h.textContent=d.heading;
p.tabIndex=-1;
p.setAttribute("role","status");
p.textContent=d.text;
m.replaceChildren(h,p);
document.querySelectorAll(".langs").forEach(function(e){e.remove()});
if(a){
a=p.appendChild(document.createElement("p")).appendChild(document.createElement("a"));
a.className="go";
a.href=url+location.hash;
a.textContent=d.again;
}
p.focus();
}
function over(){
if(told)return;
if(sent)thank();
else if(!form)location.replace(url+location.hash);
}
function watch(){
if(told||--left<0)return;
look(thank);
setTimeout(watch,2e3);
}
function send(){
if(!sent)setTimeout(watch,2e3);
sent=true;
left=30;
}
f.addEventListener("submit",send);
f.submit=function(){
send();
HTMLFormElement.prototype.submit.call(f);
};
if(c)c.onmessage=function(e){if(e.data&&e.data.type!=="showing")look(over)};
addEventListener("pagehide",function(){if(sent)tell()});
addEventListener("pageshow",function(e){
if(!e.persisted)return;
if(!form)sent=told=false;
look(over);
});
document.addEventListener("visibilitychange",function(){if(!document.hidden)look(over)});
})();

(function(){
var p=document.getElementById("wait"),a=document.querySelector("main a.go"),f=document.querySelector("main form"),d=p&&p.dataset;
if(!d||!a&&!f||!window.Intl||!Intl.PluralRules)return;
var texts=JSON.parse(d.texts),rules=new Intl.PluralRules(document.documentElement.lang),until=Date.now()+d.seconds*1000+Math.random()*500;
function go(){
if(document.hidden)return document.addEventListener("visibilitychange",go,{once:true});
if(f)return f.submit();
location.replace(a.href+(a.href.indexOf("#")<0?location.hash:""));
}
function tick(){
var left=Math.ceil((until-Date.now())/1000),n=Math.max(left,0),unit="seconds_";
if(n>=120){
n=Math.ceil(n/60);
unit="minutes_";
}
p.textContent=(texts[unit+rules.select(n)]||texts[unit+"other"]).replace("{n}",n);
if(left>0)setTimeout(tick,1000);
else go();
}
document.getElementById("then").hidden=false;
tick();
})();

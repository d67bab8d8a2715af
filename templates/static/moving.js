(function(){
var f=document.getElementById("challenge"),k=f.elements.key,still=k.value,key=k.dataset.moving,p=f.querySelector(".picture"),w=f.querySelector(".more"),b=document.createElement("button");
function moved(url){return url.replace(still,key)}
p.innerHTML=moved(p.textContent).replace("<img ",'<img class="moving" ').replace('"80"','"240"');
f.querySelectorAll("a,audio").forEach(function(e){
["href","src"].forEach(function(n){if(e.hasAttribute(n))e.setAttribute(n,moved(e.getAttribute(n)))});
});
k.value=key;
document.querySelectorAll("[data-moving]:not(input)").forEach(function(e){e.textContent=e.dataset.moving});
b.className=w.className;
b.name="step";
b.value="digits";
b.textContent=w.textContent;
w.parentNode.replaceChild(b,w);
f.elements.rep.insertAdjacentHTML("beforebegin",'<p class="arrows" hidden>'+"←↑→↓".replace(/./g,'<button class="link" type="button">$&</button>')+"</p>");
})();

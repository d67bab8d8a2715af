(function(){var h=location.hash;if(!h)return;
var f=document.getElementById("challenge");if(f&&f.action.indexOf("#")<0)f.action+=h;
document.querySelectorAll("a.keep").forEach(function(a){a.href+=h})})();

// The score of the pretend visitor, as the gateway has it at this moment.
'use strict';
(() => {
  const box = document.getElementById('score');
  if (!box) return;
  const put = (name, text) => { box.querySelector(`[data-of=${name}]`).textContent = text; };
  const ask = async () => {
    try {
      const answer = await fetch('/play/score', { cache: 'no-store' });
      if (!answer.ok) return;
      const now = await answer.json();
      for (const name of ['pages', 'parts', 'role']) put(name, now[name]);
      put('reason', now.reason || '–');
      put('score', now.judged ? now.score.toFixed(2) : '–');
      box.querySelector('meter').value = now.judged ? now.score : 0;
      box.dataset.running = now.running;
    } catch { /* the next one may succeed */ }
  };
  setInterval(() => { if (document.visibilityState === 'visible') ask(); }, 1000);
})();

// The list of the demo: what a front end does, which is nothing special. antirobot.js stands in the page with one line;
// below, fetch is asked as anywhere, and a challenge in between is the dialog's affair.
'use strict';
(() => {
  const box = document.getElementById('list');
  const at = (id) => document.getElementById(id);
  const say = (text) => { at('said').textContent = text; };
  let page = 1;

  at('more').addEventListener('click', async () => {
    say('');
    try {
      const resp = await fetch(`/api/list?page=${page}`, { headers: { Accept: 'application/json' } });
      if (!resp.ok) throw new Error(`${resp.status}`);
      const body = await resp.json();
      for (const item of body.items) {
        const li = document.createElement('li');
        li.textContent = item.title;
        at('items').append(li);
      }
      page = body.page % body.pages + 1;
      say(`${box.dataset.loaded} ${at('items').children.length}`);
    } catch (e) {
      if (e.name === 'AntirobotCancelled') say(box.dataset.cancelled);
      else if (e.name === 'AntirobotBlocked') say(`${box.dataset.blocked} ${e.requestId}`);
      else say(`${box.dataset.failed} ${e.message}`);
    }
  });

  // What a script gets that has no antirobot.js: data-install="fetch" leaves XMLHttpRequest alone.
  at('bare').addEventListener('click', () => {
    const x = new XMLHttpRequest();
    x.open('GET', '/api/list?page=1');
    x.setRequestHeader('Accept', 'application/json');
    x.onloadend = () => {
      let text = x.responseText;
      try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* as it came */ }
      at('raw').textContent = `${x.status} ${x.statusText}\n${x.getAllResponseHeaders()}\n${text}`;
    };
    x.send();
  });
})();

// The list of the demo: what a front end does when its request is answered by a captcha instead.
'use strict';
(() => {
  const box = document.getElementById('list');
  const at = (id) => document.getElementById(id);
  const say = (text) => { at('said').textContent = text; };
  const show = (resp, text) => {
    const lines = [`${resp.status} ${resp.statusText}`];
    for (const [name, value] of resp.headers) lines.push(`${name}: ${value}`);
    at('raw').textContent = `${lines.join('\n')}\n\n${text}`;
  };
  let page = 1;
  let key = '';

  const ask = async (url) => {
    const resp = await fetch(url, {
      headers: { Accept: 'application/json', 'X-Requested-With': 'XMLHttpRequest' },
      credentials: 'same-origin',
    });
    const text = await resp.text();
    show(resp, text);
    let body = {};
    try { body = JSON.parse(text); } catch { /* said below */ }
    return { resp, body };
  };

  // draw shows the puzzle of a captcha answer in the page itself.
  const draw = (captcha) => {
    key = captcha.key;
    const img = new Image();
    img.alt = at('puzzle').dataset.alt;
    img.src = captcha['img-url'];
    at('puzzle').replaceChildren(img);
    at('page').href = captcha['captcha-page'];
    at('challenge').hidden = false;
    at('rep').value = '';
    at('rep').focus();
  };

  const take = ({ resp, body }) => {
    if (body.type === 'captcha' && body.captcha) {
      if (document.querySelector('input[name=style]:checked').value === 'redirect') {
        say(box.dataset.going);
        location.assign(body.captcha['captcha-page']);
        return;
      }
      say(box.dataset.challenged);
      draw(body.captcha);
      return;
    }
    if (body.type === 'blocked') {
      say(`${box.dataset.blocked} ${body['request-id'] || ''}`);
      return;
    }
    if (!resp.ok || !Array.isArray(body.items)) {
      say(`${box.dataset.failed} ${resp.status}`);
      return;
    }
    for (const item of body.items) {
      const li = document.createElement('li');
      li.textContent = item.title;
      at('items').append(li);
    }
    page = body.page % body.pages + 1;
    say(`${box.dataset.loaded} ${at('items').children.length}`);
  };

  const guarded = (f) => async (event) => {
    event.preventDefault();
    try { await f(); } catch (e) { say(`${box.dataset.failed} ${e.message}`); }
  };

  const load = async () => take(await ask(`/api/list?page=${page}`));

  at('more').addEventListener('click', guarded(load));

  at('challenge').addEventListener('submit', guarded(async () => {
    const { body } = await ask(`/checkcaptcha?key=${encodeURIComponent(key)}&rep=${encodeURIComponent(at('rep').value)}&format=json`);
    if (body.captcha && body.captcha.status === 'success') {
      at('challenge').hidden = true;
      say(box.dataset.passed);
      await load();
    } else if (body.captcha && body.captcha.key) {
      say(box.dataset.wrong);
      draw(body.captcha);
    } else {
      say(box.dataset.failed);
    }
  }));
})();

// Your own interface without the library, built on the JSON. The page has, hidden until they are needed:
//   <form id="form" hidden>
//     <img id="picture" alt="Six digits to be typed; the sound says them too"> <audio id="sound" controls></audio>
//     <label for="answer">The digits</label> <input id="answer" inputmode="numeric" autocomplete="off" aria-describedby="said">
//     <button>Continue</button> <p id="said" role="status"></p>
//   </form>
async function ask(url, options) {
  const [form, picture, sound, answer, said] = ['form', 'picture', 'sound', 'answer', 'said'].map((id) => document.getElementById(id));
  const seconds = (n) => new Promise((over) => { setTimeout(over, n * 1000); });
  for (let c = null; ;) {
    const reply = c ? null : await fetch(url, options);
    if (reply && reply.headers.get('X-Antirobot-Verdict') !== 'captcha') {
      form.hidden = true;
      return reply;
    }
    let json = c ? { type: 'captcha', captcha: c } : await reply.json();
    if (json.type === 'captcha') {
      c = json.captcha;
      form.hidden = false;
      picture.src = c['img-url'];
      sound.src = c['audio-url'];
      answer.value = '';
      answer.focus();
      const digits = await new Promise((typed) => {
        form.onsubmit = (event) => { event.preventDefault(); typed(answer.value); };
      });
      const checked = await fetch(c['check-url'], {
        method: 'POST', credentials: 'include', headers: { Accept: 'application/json' },
        body: new URLSearchParams({ key: c.key, rep: digits, format: 'json' }),
      });
      json = await checked.json();
      c = json.type === 'captcha' && json.captcha.status !== 'success' ? json.captcha : null; // wrong or expired: a new picture
      said.textContent = c ? 'That was not it. Here is another picture.' : '';
    }
    if (json['retry-after']) { // 429, or 503: too fast, or the gateway can't say now
      said.textContent = `A moment: it goes on by itself in ${json['retry-after']} seconds.`;
      form.hidden = false;
      await seconds(json['retry-after']);
      said.textContent = '';
    }
  }
}

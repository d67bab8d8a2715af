// Your own interface without the library, built on the JSON. Type what the picture shows into #answer.
async function ask(url, options) {
  for (let c = null; ;) {
    const answer = c ? null : await fetch(url, options);
    if (answer && answer.headers.get('X-Antirobot-Verdict') !== 'captcha') return answer;
    if (answer) c = (await answer.json()).captcha;

    document.querySelector('#picture').src = c['img-url'];
    const digits = await new Promise((typed) => {
      document.querySelector('#form').onsubmit = (event) => { event.preventDefault(); typed(document.querySelector('#answer').value); };
    });
    const checked = await fetch(c['check-url'], {
      method: 'POST', credentials: 'include', headers: { Accept: 'application/json' },
      body: new URLSearchParams({ key: c.key, rep: digits, format: 'json' }),
    });
    const said = (await checked.json()).captcha;
    c = said.status === 'success' ? null : said; // right: the request again; wrong or expired: a new picture
  }
}

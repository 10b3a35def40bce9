// Search and folding on the page of `coil explain --html`.
const items = [...document.querySelectorAll('.item')];
const blocks = [...document.querySelectorAll('.block')];
const search = document.getElementById('search');
const folded = new Map([...document.querySelectorAll('details')].map(d => [d, d.open]));
search.addEventListener('input', () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = text => words.every(w => text.toLowerCase().includes(w));
  let count = 0;
  for (const item of items) {
    const shown = holds(item.textContent);
    item.classList.toggle('hidden', !shown);
    count += shown;
  }
  for (const block of blocks) block.classList.toggle('faded', !holds(block.dataset.text));
  for (const [details, open] of folded) {
    if (details.classList.contains('item')) continue;
    details.open = words.length ? details.querySelector('.item:not(.hidden)') !== null : open;
  }
  document.getElementById('found').textContent = words.length ? count + ' found' : '';
});
const follow = () => {
  const at = document.getElementById(location.hash.slice(1));
  if (at && at.tagName === 'DETAILS') at.open = true;
};
addEventListener('hashchange', follow);
follow();

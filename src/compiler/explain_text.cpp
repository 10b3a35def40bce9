#include "compiler/explain_text.h"

namespace coil {

std::string_view explain_style() {
  return R"css(
body { font: 15px/1.45 system-ui, sans-serif; max-width: 96rem; margin: 0 auto; padding: 0 1rem 4rem; color: #1d2430; }
header { position: sticky; top: 0; background: #fff; padding: .6rem 0; border-bottom: 1px solid #d8dde3; display: flex; gap: 1rem; align-items: baseline; }
h1 { font-size: 1.3rem; margin: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
#search { flex: 1; font: inherit; padding: .25rem .6rem; } #found { color: #69727f; min-width: 6rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem .9rem .15rem 0; vertical-align: top; }
table.wide { width: 100%; font-size: 13px; } table.wide tr:nth-child(even) { background: #f7f9fa; }
table.code td { font: 12px/1.35 ui-monospace, monospace; overflow-wrap: anywhere; } table.code td:first-child { min-width: 3rem; }
pre { background: #f4f6f8; padding: .8rem; overflow-x: auto; font-size: 12px; line-height: 1.35; white-space: pre-wrap; }
#calls td:nth-last-child(2) { overflow-wrap: anywhere; }
code { font-size: 12.5px; } svg { width: 100%; height: auto; } td.time, td.bytes, td .quiet { white-space: nowrap; } .quiet { color: #69727f; } summary { cursor: pointer; } .hidden { display: none; }
.block rect { stroke: #fff; stroke-width: .5; } .block.faded { opacity: .15; }
)css";
}

std::string_view explain_script() {
  return R"js(
const items = [...document.querySelectorAll('.item')], blocks = [...document.querySelectorAll('.block')], search = document.getElementById('search');
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
  for (const [details, open] of folded) if (!details.classList.contains('item')) details.open = words.length ? details.querySelector('.item:not(.hidden)') !== null : open;
  document.getElementById('found').textContent = words.length ? count + ' found' : '';
});
const follow = () => { const at = document.getElementById(location.hash.slice(1)); if (at && at.tagName === 'DETAILS') at.open = true; };
addEventListener('hashchange', follow);
follow();
)js";
}

}  // namespace coil

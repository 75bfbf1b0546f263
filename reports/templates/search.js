"use strict";
// Shows the rows of the matrix that contain every word of the search field, and says how many they are.
(() => {
  const field = document.getElementById("search");
  const said = document.getElementById("found");
  const rows = [...document.querySelectorAll("tr[data-event]")].map((row) => ({
    row,
    text: `${row.dataset.event} ${row.textContent}`.toLowerCase(),
  }));
  const parts = [...document.querySelectorAll("[data-rows]")];

  function search() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const { row, text } of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden && !row.hasAttribute("data-repeated")) count += 1;
    }
    for (const part of parts) part.hidden = !part.querySelector("tr[data-event]:not([hidden])");
    said.textContent = words.length ? `${count} of ${total} rows` : `${total} rows`;
  }

  const total = rows.filter(({ row }) => !row.hasAttribute("data-repeated")).length;
  document.getElementById("searching").hidden = false;
  field.addEventListener("input", search);
  addEventListener("pageshow", search); // a browser keeps the text of a field when one comes back
  search();
})();

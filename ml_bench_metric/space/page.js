// What both parts of the page need: making elements, showing errors beside their fields.
(function (mlBench) {
  "use strict";

  const byId = (id) => document.getElementById(id);

  /** Return a new element; children are elements and texts. */
  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  /** Return what `reading` returns; where it throws an InputError, show that beside the field and return null. */
  function readField(id, reading) {
    const field = byId(id);
    let message = "";
    let result = null;
    try {
      result = reading(field.value);
    } catch (error) {
      if (!(error instanceof mlBench.arguments.InputError)) throw error;
      ({ message } = error);
    }
    field.setAttribute("aria-invalid", String(message !== ""));
    const place = byId(`${id}-error`);
    if (place.textContent !== message) place.textContent = message;
    return result;
  }

  /** The value of the checked radio button of a name. */
  const choice = (name) => document.querySelector(`input[name="${name}"]:checked`).value;

  /** Show a text in a live region, only where it is another one. */
  function say(id, text) {
    if (byId(id).textContent !== text) byId(id).textContent = text;
  }

  /** Call `update` now and after every change in a form, not at every key. */
  function keepUpdated(form, update) {
    let timer;
    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(update, 120);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    update();
  }

  mlBench.page = { byId, element, readField, choice, say, keepUpdated };
})((globalThis.mlBench ??= {}));

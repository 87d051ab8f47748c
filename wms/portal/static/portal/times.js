// Times in a reader's terms: <time datetime="…"> shows how long ago, and on hover the moment in UTC and in the reader's
// own time zone. Without this script the moment itself is shown.
const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "narrow" });
const own = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];
//: Older moments are shown as a date.
const OLDEST_S = 30 * 86400;

function inWords(moment, now) {
  const seconds = Math.round((moment - now) / 1000);
  if (Math.abs(seconds) < 1) return "now";
  if (Math.abs(seconds) > OLDEST_S) return moment.toISOString().slice(0, 10);
  const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length);
  return relative.format(Math.trunc(seconds / length), unit);
}

function show() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[data-relative]")) {
    const moment = new Date(element.dateTime);
    const words = inWords(moment, now);
    if (element.textContent !== words) element.textContent = words;
    if (!element.title) {
      const utc = moment.toISOString().slice(0, 19).replace("T", " ");
      element.title = `${utc} UTC${zone === "UTC" ? "" : ` · ${own.format(moment)} ${zone}`}`;
    }
  }
}

show();
setInterval(show, 5000);
document.addEventListener("page-updated", show);

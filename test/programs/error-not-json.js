// Returns what is no JSON.
// request: {"args":{}}
module.exports = () => ({ raw: { big: 10n } });

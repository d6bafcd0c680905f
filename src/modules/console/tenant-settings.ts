// The page on which a tenant says whether its members need a second factor. A key of the API can only make that stricter.
import { attribute, html } from '../../platform/http/html.ts';
import { problemsNotice } from './forms.ts';
import { consolePage, csrfField } from './shell.ts';
import { bodyOf, type Console, isSuccess, type Outcome, problemLines, type Visit } from './visit.ts';

const PATH = '/console/people/second-factor';
const TENANT = '/tenants/self';

type Tenant = { name: string; settings: Record<string, string> };

/** By the value of the setting; the empty one leaves it out. */
const choices = [
  ['', 'As the server says'],
  ['true', 'All members need one'],
  ['false', 'No member needs one'],
] as const;

const readTenant = async (visit: Visit): Promise<Tenant> =>
  bodyOf<Tenant>(await visit.api({ method: 'GET', url: TENANT }));

const settingPage = (visit: Visit, { settings }: Tenant, lines: readonly string[] = []): string => {
  const current = settings['require_second_factor'] ?? '';
  return consolePage(visit.session, {
    title: 'Second factor',
    section: 'People',
    main: html`<p class="quiet"><a href="/console/people">People</a></p>
<h1>Second factor</h1>
${lines.length > 0 && problemsNotice('The setting was not changed.', lines)}
<form method="post" action="${PATH}" class="card">${csrfField(visit.session)}
<label>Members who open the console<select name="required">${choices.map(([value, label]) => html`<option value="${value}"${attribute('selected', value === current)}>${label}</option>`)}</select></label>
<p class="hint">A member who needs one and has no device sets it up at the next page. API keys need none, and can only make this stricter.</p>
<button>Save</button></form>`,
  });
};

export const tenantSettingsPages = ({ get, postAfterCode }: Console): void => {
  get(PATH, async (visit) => settingPage(visit, await readTenant(visit)));

  postAfterCode(PATH, async (submission): Promise<Outcome> => {
    const { name, settings } = await readTenant(submission);
    const { require_second_factor: _, ...others } = settings;
    const required = submission.field('required');
    const changed = required === '' ? others : { ...others, require_second_factor: required };
    const answer = await submission.api({ method: 'PUT', url: TENANT, json: { name, settings: changed } });
    if (isSuccess(answer)) return { seeOther: '/console/people?done=required' };
    return { status: answer.status, page: settingPage(submission, { name, settings }, problemLines(answer)) };
  });
};

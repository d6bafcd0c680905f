// The pages that make, change and delete a stored proxy, by the API.
import { AppError } from '../../platform/base/errors.ts';
import { listNames } from '../logs/name-rows.ts';
import { namesOf } from './actor-names.ts';
import { linesAbove, LOOK, onceHeader } from './form-fields.ts';
import { idOf, problemsNotice } from './forms.ts';
import { proxyFormPage } from './proxy-form.ts';
import {
  bodyOfProxyForm,
  formOfProxy,
  keptFields,
  problemsOfProxyForm,
  type Proxy,
  type ProxyForm,
  readProxyForm,
  seenOf,
} from './proxy-record.ts';
import { addressOf, may, notice } from './shell.ts';
import { bodyOf, type Console, isSuccess, type Outcome, type Submission, type Visit } from './visit.ts';

const PATH = '/console/proxies';

/** Applications that the form names, the newest first. */
const APPLICATIONS_MAX = 100;

export const findStoredProxy = async (visit: Visit): Promise<Proxy> =>
  bodyOf<Proxy>(await visit.api({ method: 'GET', url: `/proxies/${idOf(visit, 'proxy')}` }));

const show = async (visit: Visit, form: ProxyForm, above?: Parameters<typeof proxyFormPage>[3]): Promise<string> => {
  const applications = await listNames(visit.ctx.db.for(visit.session), 'application', APPLICATIONS_MAX);
  const id = form.proxy?.application_id;
  if (id !== undefined && !applications.some((each) => each.id === id))
    applications.push({ id, name: (await namesOf(visit, [id])).get(id) ?? id });
  return proxyFormPage(visit, form, applications, above);
};

const save = async (submission: Submission, proxy: Proxy | undefined): Promise<Outcome> => {
  const form = readProxyForm(proxy, submission.field);
  const refuse = async (status: number, problems: ProxyForm['problems'], lines: readonly string[]) => {
    const heading = proxy ? 'The proxy was not saved.' : 'The proxy was not created.';
    return { status, page: await show(submission, { ...form, problems }, problemsNotice(heading, lines)) };
  };
  if (proxy && form.typed.seen !== seenOf(proxy)) {
    const sentence =
      'This proxy was changed since the page was opened. Your changes are below and are not saved. Save again to overwrite the other changes.';
    const current = { ...form, typed: { ...form.typed, seen: seenOf(proxy) } };
    return { status: 409, page: await show(submission, current, notice('warn', sentence)) };
  }
  const { json, problems: found } = bodyOfProxyForm(form);
  if (!json) return refuse(422, found, [LOOK]);
  const answer = await submission.api({
    method: proxy ? 'PUT' : 'POST',
    url: proxy ? `/proxies/${proxy.id}` : '/proxies',
    headers: proxy ? {} : onceHeader(submission.field),
    json,
    // The member gives the rights of the application to callers and code, and holds all of them.
    withAllGrants: true,
  });
  if (isSuccess(answer)) {
    const done = proxy ? 'saved' : 'made';
    return { seeOther: addressOf(`${PATH}/${(answer.body as Proxy).id}`, { done }) };
  }
  const problems = problemsOfProxyForm(form, answer);
  return refuse(answer.status, problems, linesAbove(problems, answer));
};

export const proxySavePages = (console: Console): void => {
  console.get(`${PATH}/new`, (visit) => show(visit, formOfProxy(undefined, visit.ctx.newUuid())));
  console.postAfterCode(`${PATH}/new`, (submission) => save(submission, undefined), keptFields);
  console.get(`${PATH}/:id/edit`, async (visit) => {
    // The form has the values of the configuration, which may be keys of other services.
    if (!may(visit.session, 'proxy:update')) throw new AppError('forbidden', 'Your role does not change proxies.');
    if (visit.stepUp !== undefined) return { seeOther: visit.stepUp };
    return show(visit, formOfProxy(await findStoredProxy(visit), ''));
  });
  console.postAfterCode(
    `${PATH}/:id/edit`,
    async (submission) => save(submission, await findStoredProxy(submission)),
    keptFields,
  );
  console.get(`${PATH}/:id/delete`, async (visit) => ({ seeOther: `${PATH}/${idOf(visit, 'proxy')}` }));
  console.postAfterCode(`${PATH}/:id/delete`, async (submission) => {
    bodyOf(await submission.api({ method: 'DELETE', url: `/proxies/${idOf(submission, 'proxy')}` }));
    return { seeOther: addressOf(PATH, { done: 'deleted' }) };
  });
};

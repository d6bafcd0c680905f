// Schemas of versions of code and of drafts.
import { z } from 'zod';
import {
  APPLICATION_ID,
  CREATED_AT,
  date,
  type Examples,
  onlyPage,
  pageQuery,
  pageSchema,
  uuid,
} from '../../platform/http/schemas.ts';
import { isStorableText, NOT_STORABLE } from '../../platform/json/json.ts';
import { optional } from '../../platform/base/optional.ts';
import { VERSIONS_MAX } from './rows/code-versions.ts';

/** Why code was deployed, in a sentence or two. */
export const NOTE_LENGTH_MAX = 500;

const NUMBER_ERROR = 'must be a whole number from 1';

export const noteField = optional(
  z
    .string(`must be text of at most ${NOTE_LENGTH_MAX} characters`)
    .max(NOTE_LENGTH_MAX, `must have at most ${NOTE_LENGTH_MAX} characters`)
    .refine(isStorableText, NOT_STORABLE),
).meta({
  description:
    'Why the code is deployed, for the list of its versions. It is not encrypted: no secrets. Left out: no note.',
  example: 'Charges in cents',
});

/** @param id the parameter of the resource. */
export const versionParams = <T extends z.ZodType>(id: T) =>
  z.object({
    id,
    number: z
      .string()
      .regex(/^[1-9]\d{0,8}$/, NUMBER_ERROR)
      .transform(Number)
      .meta({ description: 'The number of the version.', type: 'integer', minimum: 1, example: 3 }),
  });

const versionFields = {
  number: z.int().meta({ description: 'The number of the version, from 1 for each resource.', example: 3 }),
  note: z
    .string()
    .optional()
    .meta({ description: 'Why it was deployed. Left out: no note.', example: 'Charges in cents' }),
  created_by: uuid('The id of the application or user that deployed it.', APPLICATION_ID).optional(),
  created_at: date('When it was deployed.'),
};

export const versionRecord = z.object(versionFields).meta({
  id: 'CodeVersion',
  description: 'A deploy of code. The one with the highest number is the code that runs.',
});

export const versionPage = pageSchema(versionRecord, 'CodeVersionPage');

export const versionsQuery = z.object(pageQuery());

/** @param code the properties of the code. @param id the name of the schema. */
export const versionWithCode = <T extends z.ZodRawShape>(code: T, id: string) =>
  z.object({ ...versionFields, ...code }).meta({ id, description: 'A deploy of code, with the code.' });

export const restoreRequest = z
  .object({ note: noteField }, 'the body must be an object')
  .meta({ id: 'RestoreVersionRequest', description: 'Why an earlier version is deployed again.' })
  .nullish();

/** Schema of a draft, with the same parameters as `versionWithCode`. */
export const draftRecord = <T extends z.ZodRawShape>(code: T, id: string) =>
  z
    .object({ ...code, modified_at: date('When it was saved last.') })
    .meta({ id, description: 'Code that is not deployed.' });

const version = { number: 3, note: 'Charges in cents', created_by: APPLICATION_ID, created_at: CREATED_AT };

export const versionExamples = (code: object) => {
  const summary = 'The third version';
  const request: Examples = { restore: { summary: 'With a note', value: { note: 'Back to cents' } } };
  return {
    page: { response: { page: { summary: 'A page', value: { pagination: onlyPage(1), data: [version] } } } },
    one: { response: { third: { summary, value: { ...version, ...code } } } },
    restore: {
      request,
      response: {
        restore: { summary: 'The new version', value: { ...version, number: 4, note: 'Back to cents' } },
      },
    },
    draft: {
      request: { draft: { summary: 'A draft', value: code } },
      response: { draft: { summary: 'A draft', value: { ...code, modified_at: CREATED_AT } } },
    },
  };
};

/** For descriptions. */
export const VERSIONS_KEPT = `The last ${VERSIONS_MAX} versions are kept.`;

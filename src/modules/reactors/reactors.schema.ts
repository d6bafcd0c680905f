// Schemas of /reactors. reactors.ts checks that a configuration fits its formula.
import { z } from 'zod';
import { applicationTypes } from '../access/permissions.ts';
import { ECHO_GUARD_TEXT, echoModes, echoModeSchema } from '../access/echo-mode.ts';
import { nameSchema } from '../access/names.ts';
import { exampleFormula, formulaRecord } from '../code/formula-record.ts';
import {
  APPLICATION_ID,
  applicationReference,
  created,
  type Examples,
  givenUuid,
  history,
  modified,
  nameQuery,
  onlyPage,
  pageQuery,
  pageSchema,
  repeated,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { configurationKeywords, formulaFields } from '../code/formula-fields.ts';
import { optional } from '../../platform/base/optional.ts';
import { CONFIGURATION_TEXT_LENGTH_MAX } from './reactors.ts';

/** What the examples of the OpenAPI document show. */
export const exampleReactor = {
  id: '4a7d0c93-8e52-4b1f-b6a9-5c3e7d1f8024',
  tenant_id: TENANT_ID,
  name: 'Shop digits',
  formula: exampleFormula,
  configuration: { SHOP: 'example-shop' },
  application: { id: APPLICATION_ID, tenant_id: TENANT_ID, name: 'Checkout', type: 'private' },
  ...created,
};

const { id: EXAMPLE_ID } = exampleReactor;

const fields = {
  name: nameSchema.meta({ description: 'The name of the reactor.', example: exampleReactor.name }),
  configuration: z
    .record(z.string(), z.any(), 'must be an object')
    .meta(configurationKeywords)
    .nullish()
    .transform((configuration) => (configuration ?? {}) as Record<string, unknown>)
    .meta({
      description: `A value for each name of the formula's contract, of its type, and no other: text of at most ${CONFIGURATION_TEXT_LENGTH_MAX} characters, numbers and booleans. May be left out where the contract is empty.`,
      example: exampleReactor.configuration,
    }),
  application: optional(applicationReference).meta({
    description:
      'The application whose permissions the code has. The caller that creates or changes the reactor must have all its permissions. Left out: none.',
  }),
  echo_guard: optional(echoModeSchema).meta({
    description: `${ECHO_GUARD_TEXT} The result of the code is the answer. Left out: the setting of the tenant.`,
    example: 'mask',
  }),
};

const formulaReference = z
  .object(
    { id: givenUuid.meta({ description: 'The id of the formula.', example: exampleFormula.id }) },
    'must be an object with an id',
  )
  .meta({ id: 'FormulaReference', description: 'A formula, named by its id.' });

const OWN_CODE =
  'The code of this reactor alone: JavaScript that exports one function. It has no contracts: any `args` and any configuration reach it.';

const bodyError = 'the body must be an object';

/** The body in the form of the functions in reactors.ts. */
const inputOf = <
  T extends {
    application?: { id?: string | undefined } | undefined;
    formula?: { id: string } | undefined;
    code?: string | undefined;
  },
>({
  application,
  formula,
  ...rest
}: T) => ({ ...rest, application_id: application?.id, formula_id: formula?.id });

export const newReactor = z
  .object(
    {
      ...fields,
      formula: optional(formulaReference).meta({
        description:
          'The formula of the reactor: an official one, or one of the tenant. Left out where there is `code`.',
      }),
      code: optional(formulaFields.code).meta({
        description: `${OWN_CODE} In place of \`formula\`.`,
        example: exampleFormula.code,
      }),
    },
    bodyError,
  )
  .superRefine(({ formula, code }, ctx) => {
    if (formula && code !== undefined)
      ctx.addIssue({ code: 'custom', path: ['code'], message: 'must not be there beside `formula`' });
    if (!formula && code === undefined)
      ctx.addIssue({
        code: 'custom',
        path: ['formula'],
        message: 'must be an object with an id, unless there is `code`',
      });
  })
  .transform(inputOf)
  .meta({ id: 'CreateReactorRequest', description: 'A reactor to create.' });

export const reactorChange = z
  .object(
    {
      ...fields,
      formula: optional(formulaReference).meta({
        description: 'The formula of the reactor. It may be left out, and cannot change: another id is a 400.',
      }),
      code: optional(formulaFields.code).meta({
        description: `The new code of a reactor that was created with its code. Left out: it stays. A 400 for a reactor of a formula.`,
        example: exampleFormula.code,
      }),
    },
    bodyError,
  )
  .transform(inputOf)
  .meta({ id: 'UpdateReactorRequest', description: 'The new state of the reactor, as a whole.' });

/** A merge patch. Null removes, so it is not absence. */
export const reactorPatch = z
  .object(
    {
      name: nameSchema.optional().meta({ description: 'The new name.', example: exampleReactor.name }),
      configuration: z.record(z.string(), z.any(), 'must be an object').meta(configurationKeywords).nullish().meta({
        description: 'Values to set. Null removes one of them; null in place of the object removes all.',
        example: exampleReactor.configuration,
      }),
      application: applicationReference.nullish().meta({ description: 'The new application. Null: none.' }),
      echo_guard: echoModeSchema.nullish().meta({
        description: `${ECHO_GUARD_TEXT} Null: the setting of the tenant.`,
        example: 'mask',
      }),
      formula: formulaReference.optional().meta({
        description: 'The formula of the reactor, which cannot change: another id is a 400.',
      }),
      code: formulaFields.code.optional().meta({
        description: 'The new code of a reactor that was created with its code.',
        example: exampleFormula.code,
      }),
    },
    bodyError,
  )
  .meta({ id: 'ReactorPatch', description: 'A merge patch (RFC 7396). What is left out stays.' });

export const reactorRecord = z
  .object({
    id: uuid('The id of the reactor.', EXAMPLE_ID),
    tenant_id: uuid('The id of the tenant that owns the reactor.', TENANT_ID),
    name: z.string().meta({ description: 'The name of the reactor.', example: exampleReactor.name }),
    formula: formulaRecord,
    code: z.string().optional().meta({
      description: 'Of a reactor that was created with its code: that code. Left out: the reactor has a formula.',
      example: exampleFormula.code,
    }),
    configuration: z.record(z.string(), z.any()).meta({
      description: "The values for the formula's contract: text, numbers and booleans.",
      example: exampleReactor.configuration,
    }),
    application: z
      .object({
        id: uuid('The id of the application.', APPLICATION_ID),
        tenant_id: uuid('The id of its tenant.', TENANT_ID),
        name: z.string().meta({ description: 'The name of the application.', example: 'Checkout' }),
        type: z.string().meta({
          description: 'The purpose of the application.',
          'x-extensible-enum': [...applicationTypes],
          example: 'private',
        }),
      })
      .meta({ id: 'ReactorApplication', description: 'The application of a reactor.' })
      .optional()
      .meta({ description: 'The application whose permissions the code has. Left out: none.' }),
    echo_guard: z
      .string()
      .optional()
      .meta({
        'x-extensible-enum': [...echoModes],
        description: `${ECHO_GUARD_TEXT} Left out: the setting of the tenant.`,
        example: 'mask',
      }),
    ...history,
  })
  .meta({ id: 'Reactor', description: 'A configured instance of a formula, which a client invokes.' });

export const reactorPage = pageSchema(reactorRecord, 'ReactorPage');

export const reactorParams = z.object({
  id: givenUuid.meta({ description: 'The id of a reactor.', example: EXAMPLE_ID }),
});

export const reactorQuery = z.object({
  ...pageQuery(),
  id: repeated(givenUuid, 'Only these reactors.', EXAMPLE_ID),
  name: nameQuery('Only reactors of this name.', 'Shop*'),
});

const { name, configuration } = exampleReactor;
const asked = { name, configuration, application: { id: APPLICATION_ID } };
const summary = 'A reactor for a shop';

export const newReactorExamples: { request: Examples; response: Examples } = {
  request: { shop: { summary, value: { ...asked, formula: { id: exampleFormula.id } } } },
  response: { shop: { summary, value: exampleReactor } },
};

export const reactorExamples: { response: Examples } = { response: { shop: { summary, value: exampleReactor } } };

export const reactorChangeExamples: { request: Examples; response: Examples } = {
  request: { shop: { summary, value: asked } },
  response: { shop: { summary, value: { ...exampleReactor, ...modified } } },
};

const patch = { configuration: { SHOP: 'other-shop' } };

export const reactorPatchExamples: { request: Examples; response: Examples } = {
  request: { shop: { summary: 'Another shop', value: patch } },
  response: { shop: { summary: 'Another shop', value: { ...exampleReactor, ...patch, ...modified } } },
};

export const reactorPageExamples: { response: Examples } = {
  response: { one: { summary: 'One reactor', value: { pagination: onlyPage(1), data: [exampleReactor] } } },
};

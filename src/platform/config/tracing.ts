// Variables of traces. Their names are OpenTelemetry's.
import { z } from 'zod';
import { hosts, percentDecoded, words } from './forms.ts';

/** A proportion of requests. */
const RATIO_FORM = /^(?:0|1|0?\.\d{1,6}|1\.0{1,6})$/;

const isHttpUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return /^https?:$/.test(protocol) && username + password + search + hash === '';
};

/** `name=value` pairs with percent-encoded values, comma-separated, as the variables of OpenTelemetry have them. */
const pairs = (nameForm: RegExp, valueForm: RegExp) =>
  words.transform((entries, problems) => {
    const found = entries.map((entry) => {
      const [name = '', ...rest] = entry.split('=');
      return [name.trim(), percentDecoded(rest.join('=').trim())] as const;
    });
    const isValid = found.every(([name, value]) => nameForm.test(name) && value !== undefined && valueForm.test(value));
    if (isValid) return Object.fromEntries(found) as Record<string, string>;
    problems.addIssue('must be like name=value,name=value with percent-encoded values');
    return z.NEVER;
  });

/** How requests are traced. */
export type TracingConfig = {
  /** Address that spans are sent to. */
  url: string;
  headers: Record<string, string>;
  serviceName: string;
  resourceAttributes: Record<string, string>;
  /** The share of requests that are traced. */
  ratio: number;
  /** Whether the `traceparent` of a client decides, if there is one. */
  followsParent: boolean;
  /** Destinations that get a `traceparent`. */
  traceparentHosts: readonly string[];
};

export const tracingVariables = {
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .string()
    .refine(isHttpUrl, 'must be like http://127.0.0.1:4318, without user, password and query')
    .optional()
    .describe(
      'Collector that gets traces by OTLP over HTTP; `/v1/traces` is appended. Not set: requests are not traced.',
    ),
  OTEL_EXPORTER_OTLP_HEADERS: pairs(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/, /^[\x20-\x7e]{1,4096}$/)
    .optional()
    .describe('Headers for the collector, such as `authorization=Bearer%20TOKEN`, comma-separated.'),
  OTEL_EXPORTER_OTLP_PROTOCOL: z
    .literal(
      'http/json',
      'must be http/json or not set: collectors take it where they take http/protobuf, on port 4318',
    )
    .optional()
    .describe('Only `http/json`.'),
  OTEL_SERVICE_NAME: z.string().min(1).max(255).default('strongroom').describe('Name of this service in traces.'),
  OTEL_RESOURCE_ATTRIBUTES: pairs(/^[\x21-\x7e]{1,255}$/, /^[^\p{Cc}]{1,255}$/u)
    .optional()
    .describe('Attributes of this server in traces, such as `deployment.environment.name=live`, comma-separated.'),
  OTEL_TRACES_SAMPLER: z
    .enum([
      'always_on',
      'always_off',
      'traceidratio',
      'parentbased_always_on',
      'parentbased_always_off',
      'parentbased_traceidratio',
    ])
    .default('always_on')
    .describe(
      'Which requests are traced: all, none, or the share OTEL_TRACES_SAMPLER_ARG. With `parentbased_` the `traceparent` of a client decides first: only behind a gateway of yours that sets it.',
    ),
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .regex(RATIO_FORM, 'must be a number from 0 to 1, such as 0.01')
    .default('1')
    .describe('Share of requests that are traced, from 0 to 1, with a sampler `traceidratio`.'),
  TRACEPARENT_HOSTS: hosts
    .optional()
    .describe(
      'Destinations that get a `traceparent`, such as `api.example.com` or `*.example.com`, comma-separated. Not set: none.',
    ),
};

type Values = z.infer<z.ZodObject<typeof tracingVariables>>;

const ratioOf = ({ OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: share }: Values) =>
  sampler.endsWith('traceidratio') ? Number(share) : Number(sampler.endsWith('always_on'));

export const tracingOf = (values: Values): TracingConfig | undefined =>
  values.OTEL_EXPORTER_OTLP_ENDPOINT === undefined
    ? undefined
    : {
        url: `${values.OTEL_EXPORTER_OTLP_ENDPOINT.replace(/\/+$/, '')}/v1/traces`,
        headers: values.OTEL_EXPORTER_OTLP_HEADERS ?? {},
        serviceName: values.OTEL_SERVICE_NAME,
        resourceAttributes: values.OTEL_RESOURCE_ATTRIBUTES ?? {},
        ratio: ratioOf(values),
        followsParent: values.OTEL_TRACES_SAMPLER.startsWith('parentbased_'),
        traceparentHosts: values.TRACEPARENT_HOSTS ?? [],
      };

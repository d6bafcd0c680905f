// Builds the modules in order, each on those before it.
import { createCallerFinder } from './modules/access/caller-finder.ts';
import type { PeopleContext } from './modules/people/context.ts';
import { type Overrides, createPlatform } from './context.ts';
import type { Config } from './platform/config/config.ts';
import type { Role } from './platform/services/open-database.ts';
import { leaveErasuresToTrigger } from './platform/db/erasures.ts';
import { logFunctions } from './platform/db/audit-rows.ts';
import { runFunctions } from './platform/db/run-rows.ts';
import { tokenFunctions } from './modules/tokens/rows/shard-functions.ts';
import type { AccessContext } from './modules/access/context.ts';
import { createKeyUses } from './modules/access/key-uses.ts';
import { createUsageCounts } from './modules/access/usage.ts';
import type { Platform } from './platform/services/platform.ts';
import { createRequestRates } from './modules/access/request-rates.ts';
import { createRefusalLog } from './modules/access/refusals.ts';
import { createUsedContainers } from './modules/tokens/container-warnings.ts';
import { createTokenRows } from './modules/tokens/rows/batched-rows.ts';
import type { TokensContext } from './modules/tokens/context.ts';
import { hmacText } from './platform/crypto/digest.ts';
import { createPasswords } from './platform/crypto/password.ts';
import { randomIntBelow } from './platform/crypto/random.ts';
import { createReplayChecks } from './modules/tokens/verified-rows.ts';
import type { CodeContext } from './modules/code/context.ts';
import { internal } from './platform/base/errors.ts';
import type { ReactorsContext } from './modules/reactors/context.ts';
import { countNoEchoes } from './modules/tokens/echo/echo-guard.ts';
import { countNoRuns } from './modules/runs/run.ts';
import { createOfficialReader } from './modules/code/official.ts';
import { createReactorFinder, findReactorPin } from './modules/reactors/reactor-finder.ts';
import type { ProxyContext } from './modules/proxy/context.ts';
import { forwardForCode } from './modules/proxy/forward.ts';
import { createProxyFinder, findProxyPin } from './modules/proxy/proxy-finder.ts';
import { createSessionFinder } from './modules/people/sessions.ts';
import { createProviderClients } from './modules/people/sso/provider-client.ts';

const createAccess = (platform: Platform): AccessContext => {
  const refusals = createRefusalLog(platform);
  platform.onClose(() => refusals.close());
  const keyUses = createKeyUses(platform);
  return {
    ...platform,
    keyUses,
    usage: createUsageCounts(platform),
    callers: createCallerFinder({ ...platform, keyUses }),
    refusals,
    requestRates: createRequestRates(platform),
    replayChecks: undefined,
    boundTargets: {},
    proxyKeys: {},
  };
};

const createTokens = (access: AccessContext): TokensContext => {
  const tokenRows = createTokenRows(access.db);
  access.replayChecks = createReplayChecks({ ...access, tokenRows });
  return {
    ...access,
    tokenRows,
    usedContainers: createUsedContainers(),
    expressionEnvironment: { hmac: hmacText, randomInt: (max) => randomIntBelow(max, access.randomBytes) },
  };
};

/** `svc.proxy` is answered by the proxy module, which is made later. */
const createCode = (tokens: TokensContext): CodeContext => ({
  ...tokens,
  serviceCalls: {
    forward: () => {
      throw internal(new Error('no module answers svc.proxy'));
    },
  },
});

const createReactors = (code: CodeContext): ReactorsContext => {
  countNoRuns(code);
  countNoEchoes(code);
  const reactors = createReactorFinder({ ...code, readOfficial: createOfficialReader() });
  code.boundTargets.reactors = findReactorPin(reactors);
  return { ...code, reactors };
};

const createProxy = (reactors: ReactorsContext): ProxyContext => {
  const context = { ...reactors, proxies: createProxyFinder(reactors) };
  reactors.boundTargets.proxies = findProxyPin(reactors);
  reactors.proxyKeys.find = (key) => context.proxies.findProxyBeforeCaller(key);
  reactors.serviceCalls.forward = (...call) => forwardForCode(context, ...call);
  return context;
};

const createPeople = (proxy: ProxyContext, { passwordCost }: Overrides): PeopleContext => ({
  ...proxy,
  passwords: createPasswords(proxy.pepper, passwordCost),
  sessions: createSessionFinder(proxy),
  providers: createProviderClients(proxy),
});

/** The platform with every module, for servers and commands. */
export type Context = PeopleContext;

/** Statements that become functions where the database is distributed. In the order in which they are made. */
export const shardFunctions = [...logFunctions, ...runFunctions, ...tokenFunctions];

/** @throws as createPlatform. */
export const createContext = async (config: Config, role: Role, overrides: Overrides = {}): Promise<Context> => {
  const platform = await createPlatform(config, role, overrides);
  try {
    await platform.db.statements.useShardFunctions(shardFunctions);
    await leaveErasuresToTrigger(platform.db.statements);
    return createPeople(createProxy(createReactors(createCode(createTokens(createAccess(platform))))), overrides);
  } catch (error) {
    await platform.close().catch(() => undefined);
    throw error;
  }
};

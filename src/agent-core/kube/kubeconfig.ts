import { dirname, resolve } from 'node:path'
import { boolYaml11Tag, FAILSAFE_SCHEMA, floatCoreTag, intCoreTag, loadAll, mergeTag, nullYaml11Tag } from 'js-yaml'
import { z } from 'zod'
import { hasCode, parseJson, readBounded } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'

/** A kubeconfig that cannot be used; the message is one sentence that says what to do. */
export class KubeconfigError extends Error {
  override readonly name = 'KubeconfigError'
}

/** A thousand contexts with their certificates. Parsed in one go, so that more would hold the agent up. */
const maxKubeconfigBytes = 4 * 1024 * 1024
/** Several times what all authorities of an operating system take. */
const maxNamedFileBytes = 1024 * 1024

const kubeconfigText = async (file: string): Promise<string> =>
  (await readBounded(file, maxKubeconfigBytes)).toString('utf8')

/** The bytes of a file that a kubeconfig names. `what` says as what: "client key". */
export async function readNamedFile(what: string, file: string): Promise<Buffer> {
  try {
    return await readBounded(file, maxNamedFileBytes)
  } catch (error) {
    throw new KubeconfigError(`The ${what} that the kubeconfig names cannot be read: ${messageOf(error)}.`, {
      cause: error,
    })
  }
}

/** The YAML of kubectl: that of Go, in which `yes` is a truth value, and 1:30 and a date are text. */
const goYaml = FAILSAFE_SCHEMA.withTags(nullYaml11Tag, boolYaml11Tag, intCoreTag, floatCoreTag, mergeTag)

/** The first document of YAML or JSON, null where there is none. Of equal keys the last counts. Throws YAMLException. */
export const parseYaml = (text: string): unknown =>
  parseJson(text) ?? loadAll(text, { schema: goYaml, json: true })[0] ?? null

/** As Go reads a string, in which null, absence and nothing are the same; so are those of the others below. */
const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '')
const truth = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false)
/** Empty where there is nothing. */
const bytes = text
  .refine((value) => z.base64().safeParse(value.replaceAll(/[\r\n]/g, '')).success, 'not base64')
  .transform((value) => Buffer.from(value, 'base64'))
const list = <T extends z.ZodType>(item: T) =>
  z
    .array(item)
    .nullish()
    .transform((value) => value ?? [])
const struct = <T extends z.ZodRawShape>(shape: T) => z.preprocess((value) => value ?? {}, z.object(shape))
const texts = list(text)

const cluster = struct({
  server: text,
  'tls-server-name': text,
  'insecure-skip-tls-verify': truth,
  'certificate-authority': text,
  'certificate-authority-data': bytes,
  'proxy-url': text,
  'disable-compression': truth,
  extensions: list(struct({ name: text, extension: z.unknown().optional() })),
})
export type Cluster = z.output<typeof cluster>

const execConfig = z.object({
  command: text,
  args: texts,
  env: list(struct({ name: text, value: text })),
  apiVersion: text,
  installHint: text,
  provideClusterInfo: truth,
  interactiveMode: text,
})
export type ExecConfig = z.output<typeof execConfig>

const authProvider = z.object({
  name: text,
  config: z
    .record(z.string(), text)
    .nullish()
    .transform((value) => value ?? {}),
})

const user = struct({
  'client-certificate': text,
  'client-certificate-data': bytes,
  'client-key': text,
  'client-key-data': bytes,
  token: text,
  tokenFile: text,
  username: text,
  password: text,
  as: text,
  'as-uid': text,
  'as-groups': texts,
  'as-user-extra': z
    .record(z.string(), texts)
    .nullish()
    .transform((value) => value ?? {}),
  'auth-provider': authProvider.nullish(),
  exec: execConfig.nullish(),
})
export type User = z.output<typeof user>

const context = struct({ cluster: text, user: text })
type Context = z.output<typeof context>

const document = struct({
  apiVersion: text.refine((value) => ['', 'v1'].includes(value), 'not v1'),
  kind: text.refine((value) => ['', 'Config'].includes(value), 'not Config'),
  'current-context': text,
  clusters: list(struct({ name: text, cluster })),
  users: list(struct({ name: text, user })),
  contexts: list(struct({ name: text, context })),
})

/** One kubeconfig or several of them, all paths absolute. */
export interface Kubeconfig {
  /** Empty where none is named. */
  readonly currentContext: string
  readonly contexts: ReadonlyMap<string, Context>
  readonly clusters: ReadonlyMap<string, Cluster>
  readonly users: ReadonlyMap<string, User>
}

/** One context, and what it refers to: who asks which API server. */
export interface Access {
  readonly name: string
  readonly clusterName: string
  readonly cluster: Cluster
  readonly user: User
}

/** Reads files as kubectl does: the first one that has an entry of a name, or a current context, counts. Throws {@link KubeconfigError}. */
export async function readKubeconfigs(files: readonly string[]): Promise<Kubeconfig> {
  const texts = await Promise.all(files.map(async (file) => ({ file, text: await textIfThere(file) })))
  const read = texts.flatMap(({ file, text }) => (text === undefined ? [] : [parseKubeconfig(text, file)]))
  if (read.length === 0) {
    throw new KubeconfigError(
      `There is no kubeconfig at ${files.join(' or ')}; copy one from your cluster there, or name one with --kubeconfig.`,
    )
  }
  const backwards = read.toReversed()
  return {
    currentContext: read.find(({ currentContext }) => currentContext !== '')?.currentContext ?? '',
    contexts: new Map(backwards.flatMap(({ contexts }) => [...contexts])),
    clusters: new Map(backwards.flatMap(({ clusters }) => [...clusters])),
    users: new Map(backwards.flatMap(({ users }) => [...users])),
  }
}

async function textIfThere(file: string): Promise<string | undefined> {
  try {
    return await kubeconfigText(file)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw new KubeconfigError(`The kubeconfig ${file} cannot be read: ${messageOf(error)}.`, { cause: error })
  }
}

function parseKubeconfig(text: string, file: string): Kubeconfig {
  const folder = dirname(file)
  const absolute = (path: string): string => path && resolve(folder, path)
  try {
    const { clusters, users, contexts, ...rest } = document.parse(parseYaml(text))
    return {
      currentContext: rest['current-context'],
      contexts: byName(contexts.map(({ name, context }) => [name, context])),
      clusters: byName(
        clusters.map(({ name, cluster }) => [
          name,
          { ...cluster, 'certificate-authority': absolute(cluster['certificate-authority']) },
        ]),
      ),
      users: byName(
        users.map(({ name, user: { exec, ...user } }) => [
          name,
          {
            ...user,
            'client-certificate': absolute(user['client-certificate']),
            'client-key': absolute(user['client-key']),
            tokenFile: absolute(user.tokenFile),
            exec: exec && { ...exec, command: exec.command.includes('/') ? absolute(exec.command) : exec.command },
          },
        ]),
      ),
    }
  } catch (error) {
    // Without the parser's error as cause: it quotes the lines around the mistake, tokens included.
    throw new KubeconfigError(
      `The kubeconfig ${file} is not valid: ${mistakeOf(error)}. Correct it or choose another with --kubeconfig.`,
    )
  }
}

/** Names the place, and quotes nothing of the file but keys. */
function mistakeOf(error: unknown): string {
  if (!(error instanceof z.ZodError)) return messageOf(error).split('\n')[0] ?? ''
  const [issue] = error.issues
  return `${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`
}

function byName<T>(entries: (readonly [string, T])[]): Map<string, T> {
  const map = new Map(entries)
  if (map.size === entries.length) return map
  const twice = entries.find(([name], at) => entries.findIndex((one) => one[0] === name) !== at)
  throw new Error(`the name "${twice?.[0] ?? ''}" stands in one of its lists twice`)
}

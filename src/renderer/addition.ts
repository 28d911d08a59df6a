import { inCatalogue, type ModelApplication, sourceOfModel } from '../contract/model-application.ts'
import type { ServiceRef } from '../contract/commands.ts'
import type { FittedModelView } from '../contract/fit.ts'
import { modelSource, namespaceName, newServiceName, secretName } from '../contract/names.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import { fieldWords } from './words/models.ts'

/** A model that a person is about to add; what is undefined is not theirs to say yet, or left to its default. */
export interface Addition {
  /** As it stands in the field. */
  readonly source: string
  /** What is asked about: a source, one file of its repository, or a name of the catalogue. */
  readonly chosen: string | undefined
  /** It was chosen from the store of this machine, so that nothing has to be opened for it. */
  readonly isFromStore: boolean
  /** As it stands in the field; whoever writes there takes back what is chosen, so that this is what was asked with. */
  readonly secret: string
  readonly name: string | undefined
  /** A name that offers itself for what is chosen, in place of one made of its source. */
  readonly suggestedName: string | undefined
  readonly namespace: string | undefined
  /** Tokens. */
  readonly contextSize: number | undefined
  /** What was created, until it is seen. */
  readonly created: ServiceRef | undefined
}

/** What is asked for it, as a request is named. */
export const additionRequests = { apply: 'add', fit: 'add/fit' } as const

export const emptyAddition: Addition = {
  source: '',
  chosen: undefined,
  isFromStore: false,
  secret: '',
  name: undefined,
  suggestedName: undefined,
  namespace: undefined,
  contextSize: undefined,
  created: undefined,
}

/** A person has written something of it that would be lost with it. */
export const isWritten = ({
  source,
  secret,
  name,
  suggestedName,
  namespace,
  contextSize,
  created,
}: Addition): boolean =>
  created === undefined &&
  ((source !== '' && suggestedName === undefined) ||
    secret !== '' ||
    [name, namespace, contextSize].some((written) => written !== undefined))

export interface NameFields {
  readonly name: string
  readonly namespace: string
  /** By field, one sentence. */
  readonly problems: { readonly name?: string; readonly namespace?: string }
}

/** What stands in the fields of the names, and what is wrong with it. */
export function nameFields(
  addition: Addition,
  { services, cluster }: Pick<AgentSnapshot, 'services' | 'cluster'>,
): NameFields {
  const namespace = addition.namespace ?? cluster.namespace ?? 'default'
  const taken = new Set(services.filter((one) => one.namespace === namespace).map((one) => one.name))
  const name = addition.name ?? freeName(addition.suggestedName ?? nameOf(addition.chosen ?? ''), taken)
  const nameProblem = problemOf(newServiceName, name) ?? (taken.has(name) ? fieldWords.nameIsTaken : undefined)
  const namespaceProblem =
    problemOf(namespaceName, namespace) ??
    (cluster.namespace !== undefined && cluster.namespace !== namespace
      ? fieldWords.otherNamespace(cluster.namespace)
      : undefined)
  return {
    name,
    namespace,
    problems: {
      ...(nameProblem !== undefined && { name: nameProblem }),
      ...(namespaceProblem !== undefined && { namespace: namespaceProblem }),
    },
  }
}

/** What is to be created; undefined while the names are not right. */
export function applicationOf(
  addition: Addition,
  { name, namespace, problems }: NameFields,
  source: FittedModelView['source'],
): ModelApplication | undefined {
  if (problems.name !== undefined || problems.namespace !== undefined) return undefined
  const { contextSize } = addition
  return {
    ...{ namespace, name, source, ...secretOf(addition) },
    ...(contextSize !== undefined && { contextSize }),
  }
}

/** It may be private at its source: the well-known models are not. */
export const takesSecret = ({ source, isFromStore }: Pick<Addition, 'source' | 'isFromStore'>): boolean =>
  !isFromStore && inCatalogue(source) === undefined && /^(?:hf|https):\/\//i.test(sourceOfModel(source.trim()))

/** What its source is opened with, as it is asked about and applied. */
export function secretOf(
  addition: Pick<Addition, 'source' | 'isFromStore' | 'secret'>,
): Pick<ModelApplication, 'sourceSecret'> {
  const sourceSecret = addition.secret.trim()
  return sourceSecret !== '' && takesSecret(addition) ? { sourceSecret } : {}
}

/** A name for the service, made of where its model comes from. */
function nameOf(source: string): string {
  const known = inCatalogue(source)
  if (known !== undefined) return known.name
  const path = source.replace(/[?#].*$/s, '').replace(/(?<!\/)\/+$/, '')
  const words = (path.split('/').at(-1) ?? '')
    .replace(/\.gguf$/i, '')
    .replace(/-\d{5}-of-\d{5}$/, '')
    .replace(/[-_.]gguf$/i, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/^-+/, '')
  const named = words === '' ? 'model' : /^[a-z]/.test(words) ? words : `model-${words}`
  return named.slice(0, 63).replace(/(?<!-)-+$/, '')
}

function freeName(wanted: string, taken: ReadonlySet<string>): string {
  for (let count = 1; ; count += 1) {
    const end = count === 1 ? '' : `-${count}`
    const name = `${wanted.slice(0, 63 - end.length)}${end}`
    if (!taken.has(name)) return name
  }
}

/** What is wrong with the source, before anybody is asked about it. */
export const sourceProblem = (source: string): string | undefined => problemOf(modelSource, source)

/** What is wrong with the name of the Secret that is written; undefined where none is asked for. */
export function secretProblem(addition: Pick<Addition, 'source' | 'isFromStore' | 'secret'>): string | undefined {
  const { sourceSecret } = secretOf(addition)
  return sourceSecret === undefined ? undefined : problemOf(secretName, sourceSecret)
}

/** A whole source that came in one go need not be confirmed. */
export const isPasted = (before: string, after: string): boolean =>
  after.length - before.length > 8 && /^\s*(?:hf|https):\/\/\S+\s*$/.test(after)

interface Checked {
  safeParse: (value: string) => {
    readonly error?: { readonly issues: readonly { readonly message: string }[] } | undefined
  }
}

function problemOf(schema: Checked, value: string): string | undefined {
  const { error } = schema.safeParse(value)
  return error && fieldWords.isWrong(error.issues[0]?.message)
}

import { formatBytes } from '../../contract/format.ts'
import { type InferenceServiceSpec, unreadSetting } from '../kube/resources.ts'
import { isBelowAny } from './argument-policy.ts'

/** The fields of a spec that are said to a whole oMLX, each with its flag. */
const cacheFlags = {
  pagedSSDCacheDir: '--paged-ssd-cache-dir',
  hotCacheMaxSize: '--hot-cache-max-size',
  pagedSSDCacheMaxSize: '--paged-ssd-cache-max-size',
} as const
type CacheField = keyof typeof cacheFlags
const cacheFields = Object.keys(cacheFlags) as readonly CacheField[]

export const omlxServiceFlags: readonly string[] = Object.values(cacheFlags)

export type OmlxFields = Pick<InferenceServiceSpec, CacheField | 'turboQuantBits'>

/** Undefined where it is absent or cannot be read. */
function stated<Name extends keyof OmlxFields>(spec: OmlxFields, name: Name) {
  const { [name]: value } = spec
  return value === unreadSetting ? undefined : (value as Exclude<OmlxFields[Name], typeof unreadSetting>)
}

export const cacheFolder = (spec: OmlxFields): string | undefined => stated(spec, 'pagedSSDCacheDir')

export const turboQuantBits = (spec: OmlxFields): number | undefined => stated(spec, 'turboQuantBits')

/** Names of the fields that cannot be read. */
export const unreadFields = (spec: OmlxFields): string[] =>
  (['turboQuantBits', ...cacheFields] as const).filter((name) => spec[name] === unreadSetting)

const units: Readonly<Record<string, number>> = { KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 }

function bytesOf(spec: OmlxFields, field: 'hotCacheMaxSize' | 'pagedSSDCacheMaxSize'): number {
  const size = stated(spec, field) ?? '0'
  return Math.ceil(Number.parseFloat(size) * (units[size.slice(-2)] ?? 0))
}

/** The memory that the spec asks for beside its model. */
export const hotCacheBytes = (spec: OmlxFields): number => bytesOf(spec, 'hotCacheMaxSize')

/** What the spec asks for of a disk. */
export const diskCacheBytes = (spec: OmlxFields): number => bytesOf(spec, 'pagedSSDCacheMaxSize')

/** A sentence where the cache in memory would be more than all models may have together. */
export function hotCacheProblem(spec: OmlxFields, budgetBytes: number): string | undefined {
  if (hotCacheBytes(spec) <= budgetBytes) return undefined
  return `spec.hotCacheMaxSize: ${stated(spec, 'hotCacheMaxSize') ?? ''} is refused: all models of this machine together may take ${formatBytes(budgetBytes)} of memory. Set less, or remove it.`
}

/** Why this machine does not give an oMLX what a spec asks for. */
export interface OmlxProblem {
  readonly message: string
  /** The same while only figures in the message change, such as the room on a disk during a download. */
  readonly cause: string
}

/** A sentence where the cache in the folder would be more than its disk has room for. */
export function diskCacheProblem(spec: OmlxFields, folder: string, roomBytes: number): string | undefined {
  if (diskCacheBytes(spec) <= roomBytes) return undefined
  return `spec.pagedSSDCacheMaxSize: ${stated(spec, 'pagedSSDCacheMaxSize') ?? ''} is refused: the disk of ${folder} has room for a cache of ${formatBytes(roomBytes)}. Set less, name a folder on another disk as spec.pagedSSDCacheDir, or make room there.`
}

/** A sentence where the cache would lie outside of what strangers may name on this machine. By the names alone: links are followed before a start. */
export function cacheFolderProblem(spec: OmlxFields, modelRoots: readonly string[]): string | undefined {
  const folder = cacheFolder(spec)
  return folder === undefined || isBelowAny(folder, modelRoots) ? undefined : folderRefused(folder)
}

/** `modelFolder`: where it is, lies in or contains one. */
export const folderRefused = (folder: string, modelFolder?: string): string =>
  modelFolder !== undefined
    ? `spec.pagedSSDCacheDir: ${folder} is refused: ${modelFolder} is the folder of a model, and oMLX must keep its cache neither inside nor around it. Name a folder separate from all models, or remove it.`
    : `spec.pagedSSDCacheDir: ${folder} is refused: the cache of oMLX needs a folder of its own in the model store or in a folder of --allowed-model-roots, empty or made as its cache. Name such a folder, or remove it.`

/** What one service asks of the oMLX that this agent starts. */
export interface OmlxClaim {
  readonly namespace: string
  /** When its InferenceService was made. */
  readonly since: string
  /** Its model, as the Model says it: oMLX has one in memory once for all services that ask for it. */
  readonly model: string
  readonly spec: OmlxFields
  /** It is served, or its model is here and fits: until then it asks for nothing, since it may never be served. */
  readonly isAdmitted: boolean
}

/** The flags that a spec asks for, each with its value. */
export const flagsAskedBy = (spec: OmlxFields): [flag: string, value: string][] =>
  cacheFields.flatMap((field) => {
    const value = stated(spec, field)
    return value === undefined ? [] : [[cacheFlags[field], value]]
  })

interface Place {
  /** Services that say the same of it agree. */
  readonly of: string
  readonly field: string
  readonly value: string
  readonly scope: string
}

/** What a claim says. Of the bits nothing is a value too, as its model would otherwise be loaded again under another service. */
function placesOf({ model, spec }: OmlxClaim): Place[] {
  const caches = cacheFields.flatMap((field) => {
    const value = stated(spec, field)
    const scope = 'one oMLX serves both and has only one value for all its models'
    return value === undefined ? [] : [{ of: field, field, value, scope }]
  })
  const bits = turboQuantBits(spec)
  const scope = 'oMLX has the model of both in memory once'
  return [
    ...caches,
    { of: `turboQuantBits of ${model}`, field: 'turboQuantBits', value: String(bits ?? 'absent'), scope },
  ]
}

export interface OmlxAgreement {
  /** In the order of {@link omlxServiceFlags}. */
  readonly flags: readonly (readonly [flag: string, value: string])[]
  /** By service: a sentence why it is not served, with which other service it disagrees and about what. */
  readonly conflicts: ReadonlyMap<string, string>
}

/**
 * What services ask of one oMLX that can be had together. Those that agree with the oMLX that runs come first, so that an edit of one takes it from no
 * other; then the oldest. One that is not admitted is told of those before it with which it disagrees: its conflict is the same before and after it is
 * admitted, so that a service whose download ends with its refusal does not begin it again and again.
 *
 * @param running The flags that it was started with; undefined where it was not started.
 */
export function agreement(
  claims: ReadonlyMap<string, OmlxClaim>,
  running: ReadonlyMap<string, string> | undefined,
): OmlxAgreement {
  const agreesWithIt = ({ spec }: OmlxClaim) =>
    running !== undefined && flagsAskedBy(spec).every(([flag, value]) => running.get(flag) === value)
  const rank = (key: string, claim: OmlxClaim): string => `${agreesWithIt(claim) ? 0 : 1} ${claim.since} ${key}`
  const inOrder = [...claims].sort((one, other) => (rank(...one) < rank(...other) ? -1 : 1))
  const taken = new Map<string, { readonly key: string; readonly value: string }>()
  const conflicts = new Map<string, string>()
  for (const [key, claim] of inOrder) {
    const places = placesOf(claim)
    const clash = places.find(({ of, value }) => (taken.get(of)?.value ?? value) !== value)
    if (clash) conflicts.set(key, conflictSentence(clash, taken.get(clash.of)))
    else if (claim.isAdmitted) for (const { of, value } of places) if (!taken.has(of)) taken.set(of, { key, value })
  }
  const flags = cacheFields.flatMap((field) => {
    const asked = taken.get(field)
    return asked ? [[cacheFlags[field], asked.value] as const] : []
  })
  return { flags, conflicts }
}

const conflictSentence = (
  { field, value, scope }: Place,
  other: { readonly key: string; readonly value: string } | undefined,
): string =>
  `spec.${field} is ${value} here and ${other?.value ?? ''} in ${other?.key ?? ''}, and ${scope}: it waits until both have the same value or ${other?.key ?? 'that one'} is gone. Change one of them, or serve one with another runtime.`

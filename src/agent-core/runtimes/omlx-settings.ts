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

/** The flag that names a folder. */
export const cacheFolderFlag = cacheFlags.pagedSSDCacheDir
export const omlxServiceFlags: readonly string[] = Object.values(cacheFlags)

type OmlxFields = Pick<InferenceServiceSpec, CacheField | 'turboQuantBits'>

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

/** The memory that the spec asks for beside its model. */
export function hotCacheBytes(spec: OmlxFields): number {
  const size = stated(spec, 'hotCacheMaxSize') ?? '0'
  return Math.ceil(Number.parseFloat(size) * (units[size.slice(-2)] ?? 0))
}

/** A sentence where the cache would lie outside of what strangers may name on this machine. By the names alone: links are followed before a start. */
export function cacheFolderProblem(spec: OmlxFields, modelRoots: readonly string[]): string | undefined {
  const folder = cacheFolder(spec)
  return folder === undefined || isBelowAny(folder, modelRoots) ? undefined : folderRefused(folder)
}

/** `modelFolder`: where it is, lies in or contains one. */
export const folderRefused = (folder: string, modelFolder?: string): string =>
  modelFolder !== undefined
    ? `spec.pagedSSDCacheDir: ${folder} is refused: ${modelFolder} is the folder of a model, and oMLX may have its cache neither in it nor around it. Name a folder apart from all models, or take it out.`
    : `spec.pagedSSDCacheDir: ${folder} is refused: oMLX may only have a folder of its own below the model store or a folder of --allowed-model-roots, empty or made as its cache. Name such a folder, or take it out.`

/** What one service asks of the oMLX that this agent starts. */
export interface OmlxClaim {
  readonly namespace: string
  /** When its InferenceService was made. */
  readonly since: string
  /** Its model, as the Model says it: oMLX has one in memory once for all services that ask for it. */
  readonly model: string
  readonly spec: OmlxFields
}

/** A flag with its value, and the namespace whose service asks for it. */
export interface AskedFlag {
  readonly flag: string
  readonly value: string
  readonly namespace: string
}

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
    const scope = 'one oMLX serves both and has one for all its models'
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
  readonly flags: readonly AskedFlag[]
  /** By service: a sentence why it is not served, with which other service it disagrees and about what. */
  readonly conflicts: ReadonlyMap<string, string>
}

/**
 * What services ask of one oMLX that can be had together. Those that agree with the oMLX that runs come first, so that an edit of one takes it from no
 * other; then the oldest.
 *
 * @param running The flags that it was started with; undefined where it was not started.
 */
export function agreement(
  claims: ReadonlyMap<string, OmlxClaim>,
  running: ReadonlyMap<string, string> | undefined,
): OmlxAgreement {
  const agreesWithIt = ({ spec }: OmlxClaim) =>
    running !== undefined &&
    cacheFields.every((field) => {
      const value = stated(spec, field)
      return value === undefined || running.get(cacheFlags[field]) === value
    })
  const rank = (key: string, claim: OmlxClaim): string => `${agreesWithIt(claim) ? 0 : 1} ${claim.since} ${key}`
  const inOrder = [...claims].sort((one, other) => (rank(...one) < rank(...other) ? -1 : 1))
  const taken = new Map<string, { readonly key: string; readonly value: string; readonly namespace: string }>()
  const conflicts = new Map<string, string>()
  for (const [key, claim] of inOrder) {
    const places = placesOf(claim)
    const clash = places.find(({ of, value }) => (taken.get(of)?.value ?? value) !== value)
    if (clash) conflicts.set(key, conflictSentence(clash, taken.get(clash.of)))
    else
      for (const { of, value } of places) if (!taken.has(of)) taken.set(of, { key, value, namespace: claim.namespace })
  }
  const flags = cacheFields.flatMap((field) => {
    const asked = taken.get(field)
    return asked ? [{ flag: cacheFlags[field], value: asked.value, namespace: asked.namespace }] : []
  })
  return { flags, conflicts }
}

const conflictSentence = (
  { field, value, scope }: Place,
  other: { readonly key: string; readonly value: string } | undefined,
): string =>
  `spec.${field} is ${value} here and ${other?.value ?? ''} in ${other?.key ?? ''}, and ${scope}: it waits until both say the same or ${other?.key ?? 'that one'} is gone. Change one of them, or serve one by another runtime.`

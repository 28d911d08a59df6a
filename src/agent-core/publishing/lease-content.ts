import { createHash } from 'node:crypto'
import { z } from 'zod'
import { sentence } from '../../contract/clean-text.ts'
import { dnsLabel, maxLabelLength } from '../../contract/names.ts'
import type { Lease } from '../kube/resources.ts'
import type { ModelOnDisk } from '../models/models.ts'
import { parseJson } from '../util/files.ts'
import type { FleetMember } from '../../contract/doctor.ts'
import { runtimeState, type RuntimeView } from '../../contract/queries.ts'

/** What a machine tells the cluster of itself. What is not known is undefined, and not told. */
export interface NodeFacts {
  readonly displayName: string
  readonly agentVersion: string
  readonly runtimes: readonly RuntimeView[]
  readonly budgetBytes: number | undefined
  readonly availableBytes: number | undefined
  /** Those that matter most first: what there is no room for is only counted. */
  readonly models: readonly ModelOnDisk[]
  readonly modelsServed: number
  /** Work that waits for a processor, by processor: 1 = each has one thing to do. */
  readonly load: number | undefined
  readonly watts: number | undefined
  readonly paused: boolean
}

export const nodeLabel = 'metalbar.dev/node'

const names = [
  'host',
  'agent-version',
  'runtimes',
  'memory-budget',
  'memory-available',
  'models',
  'models-left-out',
  'models-served',
  'load',
  'watts',
  'paused',
] as const
type Name = (typeof names)[number]

/** An annotation that is null is taken away where it was. */
export type LeaseAnnotations = Readonly<Record<string, string | null>>

/** The whole Lease has 8 kB at most: this for the models, 1.5 kB for the runtimes, and the rest for all else and what the API server adds. */
const maxModelsBytes = 3_072
const maxRuntimesBytes = 1_536
const maxTextBytes = 200

/** Free memory is told in such steps. */
const memoryStep = 64 * 1024 ** 2

/** Every annotation of ours, so that a patch leaves nothing behind of an agent before. */
export function leaseAnnotations(facts: NodeFacts): LeaseAnnotations {
  const { budgetBytes, availableBytes, load, watts } = facts
  const runtimes = facts.runtimes.filter((view) => runtimeState(view) === 'ready')
  const told = listWithin(
    maxRuntimesBytes,
    runtimes.map(({ name, version = '', formats }) => ({ name, version, formats })),
  )
  const models = listWithin(maxModelsBytes, facts.models)
  const available = availableBytes === undefined ? undefined : Math.floor(availableBytes / memoryStep) * memoryStep
  const values: Readonly<Record<Name, string | undefined>> = {
    host: sentence(facts.displayName, maxTextBytes),
    'agent-version': sentence(facts.agentVersion, maxTextBytes) || undefined,
    runtimes: told.text,
    'memory-budget': budgetBytes?.toString(),
    'memory-available': available?.toString(),
    models: models.text,
    'models-left-out': models.leftOut === 0 ? undefined : String(models.leftOut),
    'models-served': String(facts.modelsServed),
    load: load === undefined ? undefined : String(Math.round(load * 100) / 100),
    watts: watts === undefined ? undefined : String(Math.round(watts)),
    paused: String(facts.paused),
  }
  return Object.fromEntries(names.map((name) => [`metalbar.dev/${name}`, values[name] ?? null]))
}

/** As JSON, of which as many from the beginning as its bytes in the object allow; one that is too long by itself is left out. */
function listWithin(maxBytes: number, items: readonly object[]): { readonly text: string; readonly leftOut: number } {
  const kept: string[] = []
  let room = maxBytes
  for (const item of items) {
    const text = JSON.stringify(item)
    // The object is JSON as well: quotes in an annotation are escaped there.
    const bytes = Buffer.byteLength(JSON.stringify(text)) + 1
    if (bytes > room) continue
    room -= bytes
    kept.push(text)
  }
  return { text: `[${kept.join(',')}]`, leftOut: items.length - kept.length }
}

/** The annotations that are other than what is there. */
export const changedAnnotations = (
  next: LeaseAnnotations,
  found: Readonly<Record<string, string | null>>,
): LeaseAnnotations =>
  Object.fromEntries(Object.entries(next).filter(([name, value]) => value !== (found[name] ?? null)))

const digestLength = 8

/** A name that Kubernetes takes: the host's own where that is a DNS label, else one made of it with a digest, so that no two hosts share one. */
export function nodeNameOf(displayName: string): string {
  if (displayName.length <= maxLabelLength && dnsLabel.test(displayName)) return displayName
  const digest = createHash('sha256').update(displayName).digest('hex').slice(0, digestLength)
  const readable = displayName
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, maxLabelLength - digestLength - 1)
    .replace(/^-|-$/g, '')
  return readable === '' ? digest : `${readable}-${digest}`
}

export const leaseNameOf = (displayName: string): string => `metalbar-${nodeNameOf(displayName)}`

/** RFC 3339 with microseconds, as a Lease has it. */
export const microTime = (epochMs: number): string => new Date(epochMs).toISOString().replace('Z', '000Z')

const count = z.coerce.number().nonnegative().max(Number.MAX_SAFE_INTEGER).optional().catch(undefined)
const text = z.string().max(maxTextBytes).optional().catch(undefined)
const listOf = <T extends z.ZodType>(item: T) =>
  z.string().transform(parseJson).pipe(z.array(item).max(1_000)).catch([])

/** What another build wrote may be anything: each fact that cannot be read is absent. */
const told = z.object({
  'metalbar.dev/host': text,
  'metalbar.dev/agent-version': text,
  'metalbar.dev/runtimes': listOf(z.object({ name: z.string(), version: z.string().default('') })),
  'metalbar.dev/memory-budget': count,
  'metalbar.dev/memory-available': count,
  'metalbar.dev/models': listOf(z.object({ name: z.string() })),
  'metalbar.dev/models-served': count,
  'metalbar.dev/paused': text,
})

/** A date beyond it is written with six digits for the year, and is nonsense. */
const latest = Date.UTC(9999, 0)

/** The machine that a Lease is of. */
export function memberOf({ metadata, spec }: Lease, nodeId: string): FleetMember {
  const facts = told.parse(metadata.annotations)
  const heardAt = Date.parse(spec.renewTime ?? '')
  const version = facts['metalbar.dev/agent-version']
  const [budgetBytes, availableBytes] = [facts['metalbar.dev/memory-budget'], facts['metalbar.dev/memory-available']]
  const modelsServed = facts['metalbar.dev/models-served']
  return {
    name: metadata.name,
    host: facts['metalbar.dev/host'] ?? metadata.name.replace(/^metalbar-/, ''),
    isThisOne: spec.holderIdentity === nodeId,
    ...(version !== undefined && { version }),
    runtimes: facts['metalbar.dev/runtimes'],
    ...(budgetBytes !== undefined && { budgetBytes }),
    ...(availableBytes !== undefined && { availableBytes }),
    ...(modelsServed !== undefined && { modelsServed: Math.round(modelsServed) }),
    models: facts['metalbar.dev/models'].map(({ name }) => name),
    isPaused: facts['metalbar.dev/paused'] === 'true',
    ...(heardAt > 0 && heardAt < latest && { heardAt: new Date(heardAt).toISOString() }),
  }
}

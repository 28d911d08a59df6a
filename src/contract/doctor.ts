import { z } from 'zod'
import { command } from './commands.ts'

/** `notApplicable`: this machine, or this agent as it is set up, has not what the question is about. */
export const verdicts = ['pass', 'warn', 'fail', 'notApplicable'] as const
export type Verdict = (typeof verdicts)[number]

export const doctorSubjects = ['app', 'agent', 'cluster', 'machine', 'serving'] as const
export type DoctorSubject = (typeof doctorSubjects)[number]

/** What a person can do about a finding. */
export const doctorAction = z.object({
  /** One sentence. */
  text: z.string(),
  /** For Terminal; may ask for an administrator's password. */
  shell: z.string().optional(),
  /** What the agent does by itself once a person agrees; `label` is for a button. */
  fix: z.object({ label: z.string(), command }).optional(),
})
export type DoctorAction = z.infer<typeof doctorAction>

/** The answer to one question of the doctor. */
export const doctorFinding = z.object({
  /** Never renamed. */
  id: z.string(),
  subject: z.enum(doctorSubjects),
  /** A question. */
  asks: z.string(),
  verdict: z.enum(verdicts),
  /** One sentence. */
  says: z.string(),
  action: doctorAction.optional(),
  /** Where docs/ says more, such as `operations.md#states`. */
  page: z.string(),
})
export type DoctorFinding = z.infer<typeof doctorFinding>

/** An InferenceService that this machine does not serve. */
export const unservedView = z.object({
  namespace: z.string(),
  name: z.string(),
  /** It is not for a Mac at all. */
  isForOthers: z.boolean(),
  /** One sentence. */
  message: z.string(),
})
export type UnservedView = z.infer<typeof unservedView>

/** A Mac of the cluster, as its Lease tells; what the Lease does not tell is absent. */
export const fleetMember = z.object({
  /** The name of its Lease. */
  name: z.string(),
  host: z.string(),
  isThisOne: z.boolean(),
  version: z.string().optional(),
  runtimes: z.array(z.object({ name: z.string(), version: z.string() })),
  budgetBytes: z.number().nonnegative().optional(),
  availableBytes: z.number().nonnegative().optional(),
  modelsServed: z.int().nonnegative().optional(),
  /** Those that it has on its disk. */
  models: z.array(z.string()),
  isPaused: z.boolean(),
  /** When it was heard of last; absent where the Lease does not say. */
  heardAt: z.iso.datetime().optional(),
})
export type FleetMember = z.infer<typeof fleetMember>

/** How far a Pod got on its way to a service of this machine. */
const imageMessage = 'must be the name of an image, such as busybox:1.37, of at most 300 characters'
/** The image of a Pod that is made in the cluster. */
export const probeImage = z.string({ error: imageMessage }).regex(/^[\w.\-/:@]{1,300}$/, imageMessage)

export const fromClusterView = z.object({
  /** `forbidden`: the Pod may not be made; `pod`: it could not begin. */
  hop: z.enum(['forbidden', 'pod', 'dns', 'endpoints', 'refused', 'timedOut', 'reset', 'status', 'reached']),
  isReached: z.boolean(),
  /** One sentence. */
  says: z.string(),
})
export type FromClusterView = z.infer<typeof fromClusterView>

/** One file of a report to send, without secrets. */
export const diagnosticFile = z.object({ name: z.string(), text: z.string() })
export type DiagnosticFile = z.infer<typeof diagnosticFile>

export const doctorReport = z.object({
  findings: z.array(doctorFinding),
  tookMs: z.number().nonnegative(),
})
export type DoctorReport = z.infer<typeof doctorReport>

/** `operations.md#states` as the file and the section of it. */
export function partsOfPage(page: string): { readonly file: string; readonly anchor?: string } {
  const [file = '', anchor] = page.split('#')
  return { file, ...(anchor !== undefined && { anchor }) }
}

/** A part of a page in Markdown, from its heading to the next one that is no smaller; the whole page where it has no such heading. */
export function sectionOf(text: string, anchor: string | undefined): string {
  const headings = [...text.matchAll(/^(#{1,6}) (.+)$/gm)].map(({ 1: marks = '', 2: title = '', index }) => ({
    ...{ level: marks.length, anchor: anchorOf(title), index },
  }))
  const at = headings.findIndex((heading) => heading.anchor === anchor)
  const begin = headings[at]
  if (!begin) return text
  const next = headings.slice(at + 1).find(({ level }) => level <= begin.level)
  return text.slice(begin.index, next?.index)
}

/** As those who show Markdown make it of a heading. */
export const anchorOf = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')

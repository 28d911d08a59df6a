import { z } from 'zod'

/** What `npm audit --json` prints, of which only what is judged is read. */
const advisory = z.object({
  name: z.string(),
  title: z.string(),
  url: z.string(),
  severity: z.enum(['info', 'low', 'moderate', 'high', 'critical']),
  range: z.string(),
})
const vulnerability = z.object({
  name: z.string(),
  /** A text names another package of the list, through which this one is concerned. */
  via: z.array(z.union([z.string(), advisory])),
  /** Folders below the project. */
  nodes: z.array(z.string()),
})
const report = z.object({ auditReportVersion: z.literal(2), vulnerabilities: z.record(z.string(), vulnerability) })
const refusal = z.object({ message: z.string() })

export const exceptionsShape = z.array(
  z.object({
    /** Address of the advisory. */
    advisory: z.url(),
    package: z.string(),
    /** In a sentence: why it does not concern what is released. */
    reason: z.string().min(20),
    /** From this day on it counts again, so that somebody looks: YYYY-MM-DD. */
    until: z.iso.date(),
  }),
)
export type Exceptions = z.infer<typeof exceptionsShape>

export interface Question {
  /** What npm printed. */
  readonly printed: string
  /** Folders of the packages that are in what people install, as `node_modules/NAME`. */
  readonly bundled: ReadonlySet<string>
  readonly exceptions: Exceptions
  /** YYYY-MM-DD */
  readonly today: string
}

/** `unknown`: nobody has been asked, or no answer was understood; that is no clean bill. */
export interface Verdict {
  readonly outcome: 'clean' | 'concerned' | 'unknown'
  /** For a person, each a sentence. */
  readonly lines: readonly string[]
}

/** Judges what is released alone: a tool that only builds and tests reaches nobody. */
export function judge({ printed, bundled, exceptions, today }: Question): Verdict {
  const said = parsed(printed)
  const audit = report.safeParse(said)
  if (!audit.success) {
    const why = refusal.safeParse(said).data?.message ?? 'its answer was not understood'
    return { outcome: 'unknown', lines: [`The registry could not be asked about advisories: ${withoutHosts(why)}.`] }
  }
  const found = Object.values(audit.data.vulnerabilities)
    .filter(({ nodes }) => nodes.some((node) => bundled.has(node)))
    .flatMap(({ via }) => via.filter((one) => typeof one !== 'string'))
  const unique = [...new Map(found.map((one) => [`${one.url} ${one.name}`, one])).values()]
  const concerning = unique.filter((one) => !exceptions.some((exception) => covers(exception, one, today)))
  const lines = concerning.map(
    ({ name, range, severity, title, url }) => `${name} ${range} (${severity}): ${title}, ${url}`,
  )
  const unused = exceptions.filter(
    (exception) => !unique.some(({ url, name }) => url === exception.advisory && name === exception.package),
  )
  const over = exceptions.filter(({ until }) => until <= today)
  const notes = [
    ...unused.map(
      (one) => `The exception for ${one.package} (${one.advisory}) no longer concerns anything: remove it.`,
    ),
    ...over.map(
      (one) => `The exception for ${one.package} (${one.advisory}) has ended on ${one.until}: look at it again.`,
    ),
  ]
  if (lines.length > 0) return { outcome: 'concerned', lines: [...lines, ...notes] }
  const kept = unique.length - concerning.length
  const butFor = kept > 0 ? `; exceptions: ${kept}` : ''
  const sum = `No advisory concerns what is released (packages: ${bundled.size}${butFor}).`
  return { outcome: 'clean', lines: [sum, ...notes] }
}

const covers = (exception: Exceptions[number], { url, name }: z.infer<typeof advisory>, today: string): boolean =>
  exception.advisory === url && exception.package === name && today < exception.until

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Which registry it is belongs to whoever has set npm up. */
const withoutHosts = (text: string): string => text.replaceAll(/https?:\/\/\S+/g, 'the registry').replace(/\.$/, '')

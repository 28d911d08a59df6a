import path from 'node:path'
import type { Command } from 'commander'
import { z } from 'zod'
import { traceKinds } from '../../contract/uninstall.ts'
import { VerbError } from '../agent-session.ts'
import type { VerbContext } from '../verbs/verb.ts'

const kind = z.enum(traceKinds)

const given = z.object({
  everything: z.boolean().default(false),
  yes: z.boolean().default(false),
  dryRun: z.boolean().default(false),
  json: z.boolean().default(false),
  models: z.boolean().default(false),
  applications: z.boolean().default(false),
  keep: z.array(z.string()).default([]),
  stateDir: z.string(),
  modelStore: z.string().optional(),
  logFile: z.string().optional(),
})

/** What `uninstall` takes beside the service. */
export const withEverything = (verb: Command, { defaultStateDir }: VerbContext): Command =>
  verb
    .option('--everything', 'all that was ever written, here and in the cluster; lists it first, and asks')
    .option('--dry-run', 'with --everything: only list it')
    .option('-y, --yes', 'stop the models that serve without asking; with --everything: remove what is ticked')
    .option('--models', 'with --everything: the downloaded models too')
    .option('--applications', 'with --everything: Models and InferenceServices added with Metalbar too')
    .option('--keep <kind...>', `with --everything: leave these, of ${traceKinds.join(', ')}`)
    .option('--json', 'with --everything: print it as JSON')
    .option('--state-dir <folder>', 'state folder of the agent', defaultStateDir)
    .option('--model-store <folder>', 'with --everything: where the models are, if no agent runs that tells')
    .option('--log-file <file>', "with --everything: the agent's log, if no agent runs that tells")

/** False where only the service is meant. Throws VerbError. */
export async function ranEverything({ io, end }: VerbContext, options: unknown): Promise<boolean> {
  const { everything, yes, dryRun, json, models, applications, keep, ...places } = given.parse(options)
  if (!everything) return false
  const wrong = keep.find((one) => !kind.safeParse(one).success)
  if (wrong !== undefined) {
    throw new VerbError(`--keep ${JSON.stringify(wrong)} is none of the kinds: ${traceKinds.join(', ')}.`)
  }
  const also = [...(models ? (['models'] as const) : []), ...(applications ? (['applications'] as const) : [])]
  const { uninstallEverything } = await import('./uninstall-everything.ts')
  const inFolder = (file: string | undefined) => (file === undefined ? undefined : path.resolve(io.cwd, file))
  const where = {
    stateDir: path.resolve(io.cwd, places.stateDir),
    stated: { modelStore: inFolder(places.modelStore), logFile: inFolder(places.logFile) },
  }
  end(await uninstallEverything(io, { ...where, also, keep: z.array(kind).parse(keep), yes, dryRun, json }))
  return true
}

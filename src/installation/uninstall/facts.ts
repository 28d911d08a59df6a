import path from 'node:path'
import { z } from 'zod'
import { parseJson, readIfThere } from '../../agent-core/util/files.ts'

/** What the files of a state folder tell of the places that are written to. Anything of it that is broken counts as missing. */
export interface StateFacts {
  readonly nodeId?: string | undefined
  readonly stores: readonly string[]
  readonly logFiles: readonly string[]
  readonly kubeconfig?: string | undefined
  readonly namespace?: string | undefined
  /** Absent = no cluster was ever reached. */
  readonly cluster?: { readonly context: string; readonly server: string } | undefined
}

const node = z.object({ nodeId: z.string() })
const store = z.object({ directory: z.string() })
const cluster = z.object({ pin: z.object({ context: z.string(), server: z.string() }) })
const chosen = {
  kubeconfig: z.string().nullish().catch(undefined),
  namespace: z.string().nullish().catch(undefined),
}
const log = z.object({ logFile: z.string() })
const person = z.object({ settings: z.object(chosen) })
const start = z.object({
  ...chosen,
  modelStore: z.string().optional().catch(undefined),
  logFile: z.string().optional().catch(undefined),
})

/** A larger file is none of ours. */
const maxBytes = 4_000_000

export async function factsOf(stateDir: string): Promise<StateFacts> {
  const read = async <T>(name: string, schema: z.ZodType<T>): Promise<T | undefined> => {
    const text = await readIfThere(path.join(stateDir, name), maxBytes)
    return text === undefined ? undefined : schema.safeParse(parseJson(text)).data
  }
  const started = await read('start-settings.json', start)
  const persons = (await read('settings.json', person))?.settings
  const given = [(await read('model-store.json', store))?.directory, started?.modelStore]
  const logFiles = [(await read('log-file.json', log))?.logFile, started?.logFile]
  return {
    nodeId: (await read('node.json', node))?.nodeId,
    stores: given.filter((one) => one !== undefined && path.isAbsolute(one)).map(String),
    logFiles: logFiles.filter((one) => one !== undefined && path.isAbsolute(one)).map(String),
    kubeconfig: persons?.kubeconfig ?? started?.kubeconfig ?? undefined,
    namespace: persons?.namespace ?? started?.namespace ?? undefined,
    cluster: (await read('cluster.json', cluster))?.pin,
  }
}

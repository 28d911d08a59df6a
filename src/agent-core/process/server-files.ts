import { join } from 'node:path'

export interface ServerFiles {
  readonly workingDirectory: string
  readonly logFile: string
}

/** Parents of what belongs to one server each. */
export const serverFolders = (stateDir: string) => ({ work: join(stateDir, 'work'), logs: join(stateDir, 'logs') })

/** Where the server of an InferenceService works and writes. Namespaces have no dots, so that no two keys share a name. */
export function serverFiles(stateDir: string, key: string): ServerFiles {
  const { work, logs } = serverFolders(stateDir)
  const name = key.replace('/', '.')
  return { workingDirectory: join(work, name), logFile: join(logs, `${name}.log`) }
}

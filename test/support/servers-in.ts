import { join } from 'node:path'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { keyOfRun, runFolder, runOf, serverFolders } from '../../src/agent-core/servers/run-folder.ts'

/** The servers that work in the run folders of a state folder, by the name of their service, whichever agent started them. */
export async function serversIn(stateDir: string): Promise<{ pid: number; name: string }[]> {
  const folders = serverFolders(stateDir)
  return (await hostPlatform().workplaces()).flatMap(({ pid, workingDirectory }) => {
    const run = runOf(workingDirectory)
    const isThere = workingDirectory.startsWith(join(folders.runs, '/'))
    return isThere && runFolder(folders, run).workingDirectory === workingDirectory
      ? [{ pid, name: keyOfRun(run).replace(/^.*\//, '') }]
      : []
  })
}

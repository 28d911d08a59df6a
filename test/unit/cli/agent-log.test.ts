import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { agentSettings } from '../../../src/agent-core/settings/settings.ts'
import { openAgentLog } from '../../../src/cli/run.ts'
import { StatedMemory } from '../../support/stated-memory.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test('files beyond the count, which others may have numbered, are left alone, and a line after the close goes to standard error', async () => {
  await using folder = await temporaryFolder()
  const dir = path.join(folder.dir, 'logs')
  const logFile = path.join(dir, 'agent.log')
  await mkdir(dir)
  const others = ['agent.log.5', 'agent.log.6', 'agent.log.30']
  for (const name of others) await writeFile(path.join(dir, name), name)
  let printed = ''
  const settings = agentSettings.parse({ stateDir: folder.dir, modelStore: folder.dir, logFile })
  const opened = await openAgentLog(settings, new StatedMemory().platform, {
    stderr: { write: (text) => void (printed += text) },
  })
  if (!opened.ok) throw new Error(opened.message)
  opened.log.info('in time')
  await opened.close()
  opened.log.info('too late')
  expect((await readdir(dir)).toSorted()).toEqual(['agent.log', ...others].toSorted())
  const written = await readFile(logFile, 'utf8')
  expect([written.includes('in time'), written.includes('too late'), printed.includes('too late')]).toEqual([
    true,
    false,
    true,
  ])
})

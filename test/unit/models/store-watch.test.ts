import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { StoreWatch } from '../../../src/agent-core/models/store/watch.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test('one look is taken at a time, however often it is asked for, and the next one sees anew', async () => {
  await using folder = await temporaryFolder()
  const directory = join(folder.dir, 'store')
  const homeFile = join(folder.dir, 'model-store.json')
  await writeFile(homeFile, JSON.stringify({ directory, mountPoint: '/elsewhere' }))
  const said: string[] = []
  const say = (message: string) => void said.push(message)
  const log = { ...silentLog, warn: say, info: say }
  const watch = new StoreWatch({ directory, homeFile, log, onChange: () => undefined })
  const problems = await Promise.all([watch.look(), watch.look(), watch.look()])
  await mkdir(join(directory, 'tiny'), { recursive: true })
  await watch.look()
  expect([problems.map((problem) => problem?.reason), watch.problem, said]).toEqual([
    ['StoreGone', 'StoreGone', 'StoreGone'],
    undefined,
    ['model store cannot be used', 'model store can be used again'],
  ])
})

import { mkdir, realpath, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { ownLog } from '../../../src/main/tray/menu-actions.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test('only a log of the state folder is one, wherever a link points', async () => {
  await using folder = await temporaryFolder()
  const stateDir = path.join(folder.dir, 'state')
  await mkdir(path.join(stateDir, 'logs'), { recursive: true })
  const inState = (name: string) => path.join(stateDir, 'logs', name)
  const outside = path.join(folder.dir, 'outside.log')
  for (const file of [inState('tiny.log'), inState('settings.json'), outside]) await writeFile(file, '')
  await symlink(outside, inState('link.log'))
  expect(await ownLog(stateDir, inState('tiny.log'))).toBe(await realpath(inState('tiny.log')))
  for (const file of [outside, inState('link.log'), inState('settings.json'), inState('../../outside.log')]) {
    await expect(ownLog(stateDir, file)).rejects.toThrow('is not a log of this app')
  }
  await expect(ownLog(stateDir, inState('gone.log'))).rejects.toThrow('no longer exists')
})

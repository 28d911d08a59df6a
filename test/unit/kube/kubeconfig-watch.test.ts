import { renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { KubeconfigWatch } from '../../../src/agent-core/kube/kubeconfig-watch.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test('a kubeconfig behind a link that comes, is written, replaced or goes is told each time, and another one once it is chosen', async () => {
  await using folder = await temporaryFolder()
  const at = (name: string): string => join(folder.dir, name)
  symlinkSync(at('file'), at('link'))
  let files = [at('link')]
  let told = 0
  using watch = new KubeconfigWatch(
    () => files,
    () => (told += 1),
  )
  // Done again, as it may not have been looked at before the first time.
  const isTold = (step: () => void) => {
    const before = told
    return eventually(() => {
      step()
      return told > before
    })
  }
  await isTold(() => writeFileSync(at('file'), 'one'))
  await isTold(() => {
    writeFileSync(at('next'), 'two')
    renameSync(at('next'), at('file'))
  })
  await isTold(() => rmSync(at('file'), { force: true }))
  files = [at('other')]
  watch.lookAgain()
  await isTold(() => writeFileSync(at('other'), 'three'))
  expect(told).toBeGreaterThan(3)
})

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { KubeconfigWatch } from '../../../src/agent-core/kube/kubeconfig.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test('a kubeconfig that says something else while its change is read, and then the same again, is read once more', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'kubeconfig')
  writeFileSync(file, 'before')
  const changes: string[] = []
  const onChange = () => {
    changes.push('after')
    if (changes.length > 1) return
    // Empty as it is read by whoever is told of the change.
    writeFileSync(file, '')
    writeFileSync(file, 'after')
  }
  await using watch = new KubeconfigWatch({ files: () => [file], onChange, log: silentLog })
  await eventually(() => {
    if (changes.length === 0) writeFileSync(file, 'after')
    watch.lookAgain()
    return changes.length > 1
  })
  expect(changes).toEqual(['after', 'after'])
})

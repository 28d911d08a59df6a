import { access, mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { RuntimeWork } from '../../../src/agent-core/runtimes/runtime-work.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** A Homebrew that does what a script says, and puts programs where the real one does. */
async function machine(install: string, { says = 'echo "Warning: client version is 0.12.3"' } = {}) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const bin = path.join(folder.dir, 'brew', 'bin')
  const cellar = path.join(folder.dir, 'brew', 'Cellar', 'ollama')
  await mkdir(bin, { recursive: true })
  await writeFile(path.join(folder.dir, 'ollama'), `#!/bin/sh\n${says}\n`, { mode: 0o755 })
  const put = `mkdir -p '${cellar}'; cp '${folder.dir}/ollama' '${cellar}/ollama'; ln -s '${cellar}/ollama' '${bin}/ollama'`
  const remove = `rm -r '${cellar}' '${bin}/ollama'`
  await writeFile(
    path.join(bin, 'brew'),
    `#!/bin/sh\nput() { ${put}; }\ncase "$1" in\n  install) ${install} ;;\n  uninstall) ${remove} ;;\nesac\n`,
    { mode: 0o755 },
  )
  let done = 0
  const work = stack.use(
    new RuntimeWork({
      ...{ platform: hostPlatform(), log: silentLog, system: 'linux', stateDir: path.join(folder.dir, 'state') },
      ...{ env: { PATH: '/usr/bin:/bin' }, homebrewFolders: [bin] },
      onChange: () => undefined,
      onDone: () => (done += 1),
    }),
  )
  const over = () => eventually(() => work.view?.state !== 'running' && work.view)
  const owned = stack.move()
  return { bin, work, over, done: () => done, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

test('a runtime is installed by the commands that were shown, told while it goes on, and removed again', async () => {
  await using here = await machine(`printf 'getting it\\r 50 %%\\r100 %%\\n'; put`)
  const { work } = here
  expect([await work.deeds('ollama'), await work.deeds('tensorfold'), await work.deeds('no-such')]).toEqual([
    ...[['install'], [], []],
  ])
  const plan = await work.plan('ollama', 'install')
  expect(plan.commands).toEqual([`${here.bin}/brew install ollama`])
  expect(work.view).toBeUndefined()
  expect(work.begin(plan.id)).toBeUndefined()
  expect(work.view).toMatchObject({ runtime: 'ollama', deed: 'install', state: 'running', commands: plan.commands })
  expect(await here.over()).toMatchObject({
    ...{ id: plan.id, state: 'done', lines: [`$ ${here.bin}/brew install ollama`, '100 %'] },
    message: expect.stringMatching(
      /^ollama 0\.12\.3 is installed\. It is used once it runs: .*--ollama-start/,
    ) as string,
  })
  expect([here.done(), await work.deeds('ollama')]).toEqual([1, ['update', 'remove']])
  expect(work.begin(plan.id)).toMatch(/view them again/)
  expect(work.begin((await work.plan('ollama', 'remove')).id)).toBeUndefined()
  expect(await here.over()).toMatchObject({ deed: 'remove', state: 'done', message: 'ollama is removed.' })
})

test('one is at work at a time, and one that is cancelled ends at once', async () => {
  await using here = await machine(`echo begun; sleep 600; put`)
  const { work } = here
  const [first, second] = [await work.plan('ollama', 'install'), await work.plan('ollama', 'install')]
  expect([work.cancel(), work.begin(first.id)]).toEqual([false, undefined])
  await eventually(() => work.view?.lines.includes('begun'))
  expect(work.begin(second.id)).toBe('ollama is already being changed: wait until that has finished, or cancel it.')
  expect(work.cancel()).toBe(true)
  expect(await here.over()).toMatchObject({ id: first.id, state: 'cancelled', message: 'It was cancelled.' })
  await expect(access(path.join(here.bin, 'ollama'))).rejects.toThrow('ENOENT')
  expect(work.begin(second.id)).toBeUndefined()
})

test('where it fails the last lines say why, and the sentence with them', async () => {
  await using here = await machine(
    `i=0; while [ $i -lt 40 ]; do echo "line $i"; i=$((i+1)); done; echo 'no network' >&2; exit 3`,
  )
  const { work } = here
  expect(work.begin((await work.plan('ollama', 'install')).id)).toBeUndefined()
  const { state, message, lines } = await here.over()
  expect([state, lines.length, lines.at(-1)]).toEqual(['failed', 12, 'no network'])
  expect(message).toMatch(/brew failed \(exit code 3\): line 38 line 39 no network$/)
})

test('what was installed and does not run is no success', async () => {
  await using here = await machine('put', { says: 'exit 1' })
  const { work } = here
  expect(work.begin((await work.plan('ollama', 'install')).id)).toBeUndefined()
  expect(await here.over()).toMatchObject({
    state: 'failed',
    message: expect.stringMatching(/^It was installed, but .*ollama.*/) as string,
  })
})

import { access, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { uninstall } from '../../../src/cli/service/service.ts'
import { launchdPlist } from '../../../src/installation/service/launchd.ts'
import { installedServices, uninstallService } from '../../../src/installation/service/service.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'
import { recordedIo } from '../../support/run-verb.ts'
import { examplePlan } from '../installation/service/example-plans.ts'

/** A service that runs until it is told to stop, whose agent does not answer, and which has two servers by its ledger. */
async function serving() {
  await using stack = new AsyncDisposableStack()
  const there = stack.use(await uninstallWorld({ platform: 'darwin' }))
  const { home, at, stateDir, write, host } = there
  await there.programs({
    launchctl: `case "$1" in
  print)
    [ -e '${at('gone')}' ] && exit 113
    if [ -e '${at('stopped')}' ]; then printf 'x = {\\n}\\n'; else printf 'x = {\\n\\tpid = 4242\\n}\\n'; fi;;
  bootout) : > '${at('gone')}';;
  kill) : > '${at('stopped')}';;
esac`,
  })
  const plist = path.join(home, 'Library/LaunchAgents/dev.metalbar.llmkube-metal-agent.plist')
  const copies = path.join(stateDir, 'command')
  const logs = path.join(home, 'Library/Logs/Metalbar')
  const plan = examplePlan('launchAgent', {
    program: [await write(path.join(copies, 'metal-agent'))],
    flags: new Map([
      ['state-dir', stateDir],
      ['log-file', path.join(logs, 'metal-agent.log')],
    ]),
    errorFile: path.join(logs, 'metal-agent.err.log'),
  })
  await write(plist, launchdPlist(plan))
  const server = (key: string, pid: number) => ({
    ...{
      key,
      uid: 'u',
      digest: 'd',
      executable: '/x',
      workingDirectory: '/w',
      logFile: '/l',
      outputOffset: 0,
      port: 1,
    },
    ...{ sleepsWhenIdle: false, bootId: 'b', intendedAt: '2026-11-23T13:00:00.000Z' },
    process: { pid, startTime: '1', commandLineDigest: 'c' },
  })
  const servers = [
    server('default/one', 1),
    server('default/two', 2),
    { ...server('default/two', 3), role: 'successor' },
  ]
  await write(path.join(stateDir, 'ledger.json'), JSON.stringify({ schema: 1, servers }))
  const run = async (words: readonly string[], answer?: string) => {
    const { io, printed: said } = recordedIo(home, {
      ...(answer !== undefined && { ask: () => Promise.resolve(answer) }),
      env: { PATH: at('bin'), HOME: home },
      platform: 'darwin',
    })
    const request = { keepServing: words.includes('--keep-serving'), isConfirmed: words.includes('--yes') }
    const code = await uninstall(io, request, host)
    const files = [plist, copies].map((file) =>
      access(file).then(
        () => true,
        () => false,
      ),
    )
    const [isThere = false, hasCopies = false] = await Promise.all(files)
    if (isThere !== hasCopies) throw new Error('The plist and the copy of its command go together.')
    return { code, ...said, isThere }
  }
  const stop = () => writeFile(at('stopped'), '')
  const owned = stack.move()
  return { there, run, stop, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const named = '2 models serve: default/one, default/two.\n'

test.for([
  [[], undefined, 4, /^metal-agent: Nothing was removed: run it again with --yes, .* or with --keep-serving\.\n$/],
  [[], '', 4, /^metal-agent: Nothing was removed\.\n$/],
  [[], 'n', 4, /^metal-agent: Nothing was removed\.\n$/],
] as const)(
  'models that serve are named before anything is done, and %o with the answer %o leaves them',
  async ([words, answer, code, said]) => {
    await using service = await serving()
    const found = await service.run(words, answer)
    expect(found).toEqual({ code, stdout: named, stderr: expect.stringMatching(said) as string, isThere: true })
    expect((await service.there.called()).filter((call) => !call.includes('print '))).toEqual([])
  },
)

test.for([
  [[], 'y', named],
  [['--yes'], undefined, ''],
] as const)('%o with the answer %o ends models that serve, and the service is gone', async ([words, answer, said]) => {
  await using service = await serving()
  const { code, stdout, isThere } = await service.run(words, answer)
  expect([code, stdout.startsWith(`${said}The service was removed`), isThere]).toEqual([0, true, false])
  expect((await service.there.called()).filter((call) => !call.includes('print '))).toEqual([
    expect.stringMatching(/bootout gui\/\d+\/dev\.metalbar\.llmkube-metal-agent$/),
  ])
})

test('--keep-serving and a service that does not run end no model, so that nothing is asked', async () => {
  await using kept = await serving()
  expect(await kept.run(['--keep-serving'])).toMatchObject({ code: 0, isThere: false })
  // The agent alone, which would stop its servers at a SIGTERM.
  expect(await kept.there.called()).toContainEqual(expect.stringContaining('kill SIGKILL gui/'))
  await using stopped = await serving()
  await stopped.stop()
  expect(await stopped.run([])).toMatchObject({ code: 0, isThere: false })
})

test('an agent that does not end is waited for, and then nothing is called gone', async () => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  const plist = path.join(there.home, 'Library/LaunchAgents/dev.metalbar.llmkube-metal-agent.plist')
  await there.write(plist, launchdPlist(examplePlan('launchAgent', { exitTimeoutS: -5 })))
  await there.programs({ launchctl: `[ "$1" = print ] && printf 'x = {\\n\\tpid = 4242\\n}\\n'; exit 0` })
  const told: string[] = []
  const [service] = await installedServices(there.host)
  if (!service) throw new Error('No service is installed.')
  const removal = uninstallService(service, {
    host: there.host,
    tell: (sentence) => void told.push(sentence),
    timings: { pollMs: 5, leaveMs: 20, startMs: 20 },
  })
  await expect(removal).rejects.toThrow(/^Process 4242 of dev\.metalbar\.llmkube-metal-agent has not ended within/)
  expect(told).toEqual(['Process 4242 withdraws its models and lets requests in flight finish.'])
  await access(plist)
})

import { access, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { main } from '../../../src/cli/main.ts'
import { unloaded } from '../../../src/installation/service/change-service.ts'
import { SystemdService, systemdUnitText } from '../../../src/installation/service/systemd.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'
import { examplePlan } from '../installation/service/example-plans.ts'

/** A service that runs until it is told to stop, whose agent does not answer, and which has two servers by its ledger. */
async function serving() {
  await using stack = new AsyncDisposableStack()
  const there = stack.use(await uninstallWorld())
  const { home, at, stateDir, write } = there
  await there.programs({
    systemctl: `case "$*" in
  *' show '*)
    if [ -e '${at('stopped')}' ]; then pid=0; else pid=4242; fi
    printf 'LoadState=loaded\\nUnitFileState=enabled\\nMainPID=%s\\n' "$pid";;
  *' stop '*|*' kill '*) : > '${at('stopped')}';;
esac`,
  })
  const unit = path.join(home, '.config/systemd/user/llmkube-metal-agent.service')
  const copies = path.join(stateDir, 'versions')
  const plan = examplePlan('systemdUser', {
    program: [await write(path.join(copies, '0.1.0-0123456789ab/metal-agent'))],
    flags: new Map([
      ['state-dir', stateDir],
      ['log-file', path.join(stateDir, 'service/metal-agent.log')],
    ]),
    errorFile: path.join(stateDir, 'service/metal-agent.err.log'),
  })
  await write(unit, systemdUnitText(plan))
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
    const said = { stdout: '', stderr: '' }
    const code = await main(['uninstall', ...words], {
      stdout: { write: (text: string) => (said.stdout += text) },
      stderr: { write: (text: string) => (said.stderr += text) },
      ...(answer !== undefined && { ask: () => Promise.resolve(answer) }),
      env: { PATH: at('bin'), XDG_RUNTIME_DIR: at('run') },
      platform: 'linux',
      homeDir: home,
      temporaryDir: tmpdir(),
      cwd: home,
      windowFolder: at('no-window'),
    })
    const there = [unit, copies].map((file) =>
      access(file).then(
        () => true,
        () => false,
      ),
    )
    const [isThere = false, hasCopies = false] = await Promise.all(there)
    if (isThere !== hasCopies) throw new Error('The unit and the copies of its command go together.')
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
    expect((await service.there.called()).filter((call) => !call.includes(' show '))).toEqual([])
  },
)

test.for([
  [[], 'y', named],
  [['--yes'], undefined, ''],
] as const)('%o with the answer %o ends models that serve, and the service is gone', async ([words, answer, said]) => {
  await using service = await serving()
  const { code, stdout, isThere } = await service.run(words, answer)
  expect([code, stdout.startsWith(`${said}The service was removed`), isThere]).toEqual([0, true, false])
  const asked = (await service.there.called()).map((call) => call.replace(/^.*--no-pager /, ''))
  expect(asked.filter((call) => !call.startsWith('show '))).toEqual([
    ...['disable llmkube-metal-agent.service', 'stop --no-block llmkube-metal-agent.service'],
    ...['daemon-reload', 'reset-failed llmkube-metal-agent.service'],
  ])
})

test('--keep-serving and a service that does not run end no model, so that nothing is asked', async () => {
  await using kept = await serving()
  expect(await kept.run(['--keep-serving'])).toMatchObject({ code: 0, isThere: false })
  // The agent alone, which would stop its servers at a SIGTERM.
  expect(await kept.there.called()).toContainEqual(expect.stringContaining('kill --signal=SIGKILL --kill-who=main'))
  await using stopped = await serving()
  await stopped.stop()
  expect(await stopped.run([])).toMatchObject({ code: 0, isThere: false })
})

test('an agent that does not end is waited for, and then nothing is called gone', async () => {
  await using there = await uninstallWorld()
  await there.programs({ systemctl: "printf 'LoadState=loaded\\nUnitFileState=enabled\\nMainPID=4242\\n'" })
  const told: string[] = []
  const work = {
    agents: { look: () => Promise.resolve(undefined), leave: () => Promise.resolve('silent' as const) },
    tell: (sentence: string) => void told.push(sentence),
    timings: { pollMs: 5, leaveMs: 20, startMs: 20 },
  }
  const unloading = unloaded(new SystemdService(there.host), { forGood: true, limitMs: 20 }, work)
  await expect(unloading).rejects.toThrow(/^Process 4242 of llmkube-metal-agent\.service has not ended within/)
  expect(told).toEqual(['Process 4242 withdraws its models and lets requests in flight finish.'])
})

test('a service that is neither loaded nor runs is left as it is', async () => {
  await using there = await uninstallWorld()
  await there.programs({ systemctl: "printf 'LoadState=not-found\\nUnitFileState=\\nMainPID=0\\n'" })
  const work = {
    agents: { look: () => Promise.resolve(undefined), leave: () => Promise.resolve('silent' as const) },
    tell: () => undefined,
  }
  await unloaded(new SystemdService(there.host), { forGood: true, limitMs: 20 }, work)
  const calls = await there.called()
  expect(calls.filter((call) => !call.includes(' show '))).toEqual([])
})

test("root is told to leave a user's service to that user, and may have one of its own", async () => {
  await using there = await uninstallWorld()
  await there.programs({ systemctl: 'exit 0' })
  const checked = async (id: number) =>
    new SystemdService({ ...there.host, isRoot: true, user: { ...there.host.user, name: 'anna', id } }).check()
  await expect(checked(501)).rejects.toThrow('The service belongs to anna: run this again without sudo.')
  await expect(checked(0)).resolves.toBeUndefined()
})

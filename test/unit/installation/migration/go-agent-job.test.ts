import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { build, buildBinary } from 'plist'
import { expect, test } from 'vitest'
import type { InstallationHost } from '../../../../src/installation/installation-host.ts'
import { findGoAgentJobs, findGoAgents } from '../../../../src/installation/migration/go-agent.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const goJob = {
  Label: 'com.llmkube.metal-agent',
  ProgramArguments: ['/usr/local/bin/llmkube-metal-agent', '--namespace', 'default'],
  KeepAlive: { SuccessfulExit: false },
  StandardErrorPath: '/tmp/llmkube-metal-agent.log',
  EnvironmentVariables: { PATH: '/usr/bin' },
}

async function machine() {
  const folder = await temporaryFolder()
  const host: InstallationHost = {
    platform: 'darwin',
    env: {},
    user: { name: 'me', id: 501, groupId: 20, homeDir: join(folder.dir, 'home') },
    isRoot: false,
    systemRoot: folder.dir,
    programFolders: [],
  }
  const agents = join(folder.dir, 'home/Library/LaunchAgents')
  const put = async (file: string, content: string | Uint8Array) => {
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, content)
  }
  return { dir: folder.dir, agents, host, put, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() }
}

test('the plist of the guide is found with its flags, environment and log; those of others are passed over', async () => {
  await using mac = await machine()
  await mac.put(join(mac.agents, 'com.llmkube.metal-agent.plist'), build(goJob))
  await mac.put(
    join(mac.agents, 'com.llmkube.foreman-agent.plist'),
    build({ ...goJob, Label: 'com.llmkube.foreman-agent', ProgramArguments: ['/usr/local/bin/foreman-agent'] }),
  )
  await mac.put(
    join(mac.agents, 'dev.metalbar.llmkube-metal-agent.plist'),
    build({ ...goJob, Label: 'dev.metalbar.llmkube-metal-agent' }),
  )
  const broken = [
    'com.apple.broken',
    'com.llmkube.broken',
    'org.broken.metal-agent',
    'dev.metalbar.llmkube-metal-agent.old',
  ]
  for (const name of broken) await mac.put(join(mac.agents, `${name}.plist`), '<plist>')
  expect(await findGoAgentJobs(mac.host, undefined)).toEqual({
    jobs: [
      {
        file: join(mac.agents, 'com.llmkube.metal-agent.plist'),
        label: 'com.llmkube.metal-agent',
        domain: 'gui/501',
        program: '/usr/local/bin/llmkube-metal-agent',
        args: ['--namespace', 'default'],
        environment: { PATH: '/usr/bin' },
        logFile: '/tmp/llmkube-metal-agent.log',
      },
    ],
    problems: [],
  })
})

test('one of another label and name, in the format of Apple, as a LaunchDaemon, is known by its program', async () => {
  await using mac = await machine()
  const file = join(mac.dir, 'Library/LaunchDaemons/org.example.models.plist')
  await mac.put(file, buildBinary({ ...goJob, Label: 'org.example.models' }))
  expect(await findGoAgentJobs(mac.host, undefined)).toMatchObject({
    jobs: [{ file, label: 'org.example.models', domain: 'system' }],
  })
})

test.each<[what: string, content: string, sentence: string]>([
  ['half written', build(goJob).slice(0, 400), 'is truncated: "plutil -lint" says where'],
  ['empty', '', 'is truncated'],
  ['no job', build({ Label: 7 }), 'is not a job of launchd: Label'],
  ['without a program', build({ Label: 'x', ProgramArguments: [] }), 'names no program'],
  [
    'with flags that are no list',
    build({ Label: 'x', ProgramArguments: '/usr/local/bin/x' }),
    'is not a job of launchd: ProgramArguments',
  ],
])('one that is %s is named with what is wrong', async (_, content, sentence) => {
  await using mac = await machine()
  const file = join(mac.agents, 'com.llmkube.metal-agent.plist')
  await mac.put(file, content)
  const { jobs, problems } = await findGoAgentJobs(mac.host, undefined)
  expect([jobs, problems]).toEqual([[], [expect.stringContaining(`${file} ${sentence}`)]])
})

test('one that is named is read wherever it lies, and one that is not there is said', async () => {
  await using mac = await machine()
  await mac.put(join(mac.dir, 'elsewhere.plist'), build(goJob))
  await symlink(join(mac.dir, 'elsewhere.plist'), join(mac.dir, 'link.plist'))
  expect(await findGoAgentJobs(mac.host, join(mac.dir, 'link.plist'))).toMatchObject({ jobs: [{ label: goJob.Label }] })
  const { problems } = await findGoAgentJobs(mac.host, join(mac.dir, 'no.plist'))
  expect(problems).toEqual([expect.stringMatching(/no\.plist cannot be read: ENOENT/)])
})

test('a Go agent that runs is known by its name and flags, or by what a plist starts, and our own command of that name is none', async () => {
  const lines = [
    '/usr/local/bin/llmkube-metal-agent --namespace default',
    '/opt/models/llm-host',
    '/opt/models/llm-host --namespace default',
    '/opt/models/llm-hostess',
    '/usr/local/bin/llmkube-metal-agent status',
    '/usr/local/bin/llmkube-metal-agent',
  ]
  const processes = lines.map((commandLine, at) => ({
    ...{ pid: at + 1, groupId: at + 1, startTime: '', suspended: false, cpuMs: 0 },
    commandLine,
  }))
  const platform = { processes: () => Promise.resolve(processes) }
  const found = await findGoAgents(platform, ['/opt/models/llm-host'], undefined)
  expect(found.map(({ commandLine }) => commandLine)).toEqual([lines[0], lines[1], lines[2], lines[5]])
})

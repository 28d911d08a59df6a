import { chmod, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  environmentIn,
  loginEnvironment,
  shellCommand,
  takeLoginEnvironment,
} from '../../../src/main/system/login-environment.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const homebrew = ['/opt/homebrew/bin', '/opt/homebrew/sbin', '/usr/local/bin']

/** As launchd starts a program that a person opened. */
const bare = (home: string) => ({ HOME: home, PATH: '/usr/bin:/bin', USER: 'me' })

interface Files {
  /** Name below the home folder → content. */
  readonly files?: Readonly<Record<string, string>>
  /** A script in place of a shell, which behaves as one that is not here. */
  readonly script?: string
  readonly shell?: string
  readonly limitMs?: number
}

async function said({ files = {}, script, shell = '/bin/bash', limitMs }: Files) {
  await using home = await temporaryFolder()
  for (const [name, content] of Object.entries(files)) await writeFile(path.join(home.dir, name), content)
  const own = path.join(home.dir, path.basename(shell))
  if (script !== undefined) {
    await writeFile(own, script)
    await chmod(own, 0o700)
  }
  const options = { env: bare(home.dir), shell: script === undefined ? shell : own, ...(limitMs && { limitMs }) }
  const { set, shellPath, problem } = await loginEnvironment(options)
  return {
    ...set,
    PATH: set['PATH']?.split(':'),
    shellPath: shellPath.replaceAll(home.dir, '~').split(':'),
    problem: problem?.replaceAll(home.dir, '~'),
  }
}

const proxy = 'http://proxy.example.com:3128'

describe('the environment of the login shell', () => {
  test('of bash gives what is exported, and none of the rest', async () => {
    const profile = [
      'export PATH="$HOME/.local/bin:/tools/gcloud/bin:$PATH:relative"',
      `export HTTPS_PROXY=${proxy} no_proxy=localhost KUBECONFIG=/k/one:/k/two AWS_PROFILE=lab HF_HOME=/hf`,
      'export SECRET_OF_MINE=1 LD_PRELOAD= NODE_OPTIONS=',
      'kept_here=1',
    ].join('\n')
    const { PATH, shellPath, problem, ...rest } = await said({ files: { '.bash_profile': profile } })
    expect({ PATH: PATH?.map((folder) => folder.replace(/^.*\/\.local/, '~/.local')), problem, rest }).toEqual({
      PATH: expect.arrayContaining(['~/.local/bin', '/tools/gcloud/bin', '/usr/bin', '/bin', ...homebrew]) as unknown,
      problem: undefined,
      rest: {
        HTTPS_PROXY: proxy,
        no_proxy: 'localhost',
        KUBECONFIG: '/k/one:/k/two',
        AWS_PROFILE: 'lab',
        HF_HOME: '/hf',
      },
    })
    expect([shellPath.slice(0, 2), shellPath.includes('/opt/homebrew/bin')]).toEqual([
      ['~/.local/bin', '/tools/gcloud/bin'],
      false,
    ])
    expect(PATH?.every((folder) => path.isAbsolute(folder) || folder.startsWith('~'))).toBe(true)
    expect(PATH?.indexOf('/opt/homebrew/bin')).toBeGreaterThan(PATH?.indexOf('/usr/bin') ?? Infinity)
  })

  test('of sh is read too, which has no files of bash', async () => {
    const files = { '.profile': 'export KUBECONFIG=/k/sh' }
    expect(await said({ shell: '/bin/sh', files })).toMatchObject({ KUBECONFIG: '/k/sh' })
  })

  test.for<[string, Files]>([
    [
      'prints before, after and between, in colour and without an end of line',
      {
        files: {
          '.bash_profile':
            'printf "\\033[1mWelcome\\033[0m KUBECONFIG=/wrong"; export KUBECONFIG=/k\ntrap "echo bye" EXIT',
        },
      },
    ],
    [
      'ends with an error',
      { files: { '.bash_profile': 'export KUBECONFIG=/k\nfalse\nnosuchcommand\ntrap "exit 3" EXIT' } },
    ],
    [
      'tells each command before it runs it, as titles of terminals do',
      { files: { '.bash_profile': 'export KUBECONFIG=/k\ntrap \'printf "\\033]0;%s\\007" "$BASH_COMMAND"\' DEBUG' } },
    ],
    ['asks a question, which nobody answers', { files: { '.bash_profile': 'read -r answer\nexport KUBECONFIG=/k' } }],
    ['leaves a process behind', { files: { '.bash_profile': 'export KUBECONFIG=/k\nsleep 300 &' } }],
    [
      'holds a value of several lines, one of which looks like another variable',
      { files: { '.bash_profile': 'export KUBECONFIG=/k\nexport NOTE="a\nKUBECONFIG=/wrong"' } },
    ],
    [
      'is a fish, which takes its options apart from the command and prints a greeting',
      {
        shell: '/bin/fish',
        script: '#!/bin/bash\n[ "$1" = -ilc ] || exit 9\necho "Welcome to fish"\nexport KUBECONFIG=/k\neval "$2"',
      },
    ],
    [
      'is a tcsh, of which a login shell takes no command',
      { shell: '/bin/tcsh', script: '#!/bin/bash\n[ "$1" = -ic ] || exit 9\nexport KUBECONFIG=/k\neval "$2"' },
    ],
  ])('is found where a shell %s', async ([, files]) => {
    expect(await said(files)).toMatchObject({ KUBECONFIG: '/k', problem: undefined })
  })

  test.for<[string, Files, RegExp]>([
    ['hangs', { files: { '.bash_profile': 'sleep 300' }, limitMs: 500 }, /\/bin\/bash did not answer within 500 ms/],
    [
      'hangs and cannot be asked to end',
      { files: { '.bash_profile': 'trap "" TERM INT\nsleep 300 & wait' }, limitMs: 500 },
      /within 500 ms/,
    ],
    ['prints without an end', { files: { '.bash_profile': 'yes' } }, /printed more than \d+ bytes/],
    [
      'ends before it comes to the command',
      { files: { '.bash_profile': 'exit 7' } },
      /printed no environment \(exit code 7\)/,
    ],
    ['is not there', { shell: '/bin/no-such-shell' }, /could not be run/],
    [
      'takes no such options',
      { shell: '/bin/nu', script: '#!/bin/sh\necho "unknown flag" >&2; exit 1' },
      /exit code 1/,
    ],
  ])(
    'is not had where a shell %s: PATH gets the folders of Homebrew, and it is said why and what to do',
    async ([, files, why]) => {
      const { PATH, shellPath, problem, ...rest } = await said(files)
      expect(shellPath).toEqual(['/usr/local/bin', '/usr/bin', '/bin', '/usr/sbin', '/sbin'])
      expect({ PATH, problem, rest }).toEqual({
        PATH: ['/usr/bin', '/bin', ...homebrew],
        problem: expect.stringMatching(why) as unknown,
        rest: {},
      })
      expect(problem).toMatch(/Run `\S+ -ilc env` in Terminal to see why, and start Metalbar again\.$/)
    },
  )

  test('takes the last marks, so that nothing printed before can stand for them', () => {
    const real = '<<metalbar-env-begin>>PATH=/real\0<<metalbar-env-end>>'
    expect(environmentIn(`<<metalbar-env-begin>>PATH=/forged\0${real}`)).toEqual({ PATH: '/real' })
    expect([environmentIn(''), environmentIn('<<metalbar-env-begin>>PATH=/half')]).toEqual([undefined, undefined])
    expect(shellCommand).not.toMatch(/<<metalbar-env/)
  })

  test.for<[string, Record<string, string>, asked: boolean, hasHomebrew: boolean]>([
    ['without a terminal', { SHELL: '/bin/bash' }, true, true],
    ['with an empty TERM', { SHELL: '/bin/bash', TERM: '' }, true, true],
    ['in a terminal', { SHELL: '/bin/bash', TERM: 'xterm-256color' }, false, false],
    ['where nothing names a shell', {}, false, true],
    ['where SHELL is no path', { SHELL: 'bash' }, false, true],
  ])('%s it is asked for as it should be, and Homebrew is found', async ([, given, asked, hasHomebrew]) => {
    await using home = await temporaryFolder()
    await writeFile(path.join(home.dir, '.bash_profile'), 'export KUBECONFIG=/k/asked')
    const env: NodeJS.ProcessEnv = { ...bare(home.dir), ...given }
    const { problem } = await takeLoginEnvironment(env, silentLog)
    const folders = env['PATH']?.split(':') ?? []
    expect([env['KUBECONFIG'], homebrew.every((folder) => folders.includes(folder)), problem !== undefined]).toEqual([
      asked ? '/k/asked' : undefined,
      hasHomebrew,
      false,
    ])
  })
})

import { describe, expect, test } from 'vitest'
import { fragmentFile, fragmentFor, leaveIn, matchesArguments } from '../../../src/agent-core/power/sudoers.ts'
import { exactArguments, nearMisses } from '../../support/power/command-lines.ts'

const alice = { name: 'alice', id: 501 }

/** As `sudo -n -l` prints the rules of a fragment. */
const listed = (...rules: string[]): string =>
  `User alice may run the following commands on mac:\n${rules.map((rule) => `    ${rule}\n`).join('')}`
const asListed = (fragment: string): string[] =>
  [...fragment.matchAll(/^[^#\n].* ALL = (.*)$/gm)].map(([, rule = '']) => rule)
const llmkube = String.raw`(root) NOPASSWD: /usr/bin/powermetrics --samplers cpu_power\,gpu_power -i [0-9]*`

test('the rule names each command line in full, for one user', () => {
  expect(fragmentFor(alice))
    .toBe(String.raw`# Metalbar reads the power of this Mac with these command lines and no other, without a password.
# metal-agent power remove takes this file away.
alice ALL = (root) NOPASSWD: /usr/bin/powermetrics --samplers cpu_power\,gpu_power -i 1000
alice ALL = (root) NOPASSWD: /usr/bin/powermetrics --samplers cpu_power\,gpu_power -i 10000
`)
  expect(fragmentFile(alice)).toBe('/etc/sudoers.d/metalbar-powermetrics-501')
})

test.each(['ALL', 'ADMINS', '%admin', 'LAB\\alice', 'a b', 'é', '+group', '', 'alice\nbob ALL = ALL'])(
  'a user called %j is named by number, since the name could mean others',
  (name) => {
    expect(fragmentFor({ name, id: 501 }).match(/^[^#\n].*? ALL|^#501 ALL/gm)).toEqual(Array(2).fill('#501 ALL'))
  },
)

test('by the model of how sudo matches, exactly the command lines of the rule pass', () => {
  const patterns = asListed(fragmentFor(alice)).map((rule) => rule.split('powermetrics ')[1] ?? '')
  const passes = (args: readonly string[]) => patterns.some((pattern) => matchesArguments(pattern, args))
  expect(exactArguments.filter((args) => !passes(args))).toEqual([])
  expect(nearMisses.filter(passes)).toEqual([])
})

describe('what sudo tells about a user', () => {
  const every = [1_000, 10_000]
  const wide =
    'is too wide: it lets this user run powermetrics as root with any option, including one that writes files.'
  const password = '(ALL) ALL'

  test.each<[what: string, rules: string[], leave: ReturnType<typeof leaveIn>]>([
    ['our rule', asListed(fragmentFor(alice)), { intervalsMs: every }],
    ['our rule for an administrator', [password, ...asListed(fragmentFor(alice))], { intervalsMs: every }],
    ['nothing without a password', [password], { intervalsMs: [] }],
    ["LLMKube's rule", [llmkube], { intervalsMs: every, tooWide: `LLMKube's rule ${wide}` }],
    [
      'powermetrics with any arguments',
      ['(root) NOPASSWD: /usr/bin/powermetrics'],
      { intervalsMs: every, tooWide: `A rule (/usr/bin/powermetrics) ${wide}` },
    ],
    ['everything', ['(ALL : ALL) NOPASSWD: ALL'], { intervalsMs: every, tooWide: `A rule (ALL) ${wide}` }],
    ['powermetrics without arguments', ['(root) NOPASSWD: /usr/bin/powermetrics ""'], { intervalsMs: [] }],
    [
      'a regular expression',
      [String.raw`(root) NOPASSWD: /usr/bin/powermetrics ^--samplers cpu_power,gpu_power -i [0-9]{3\,4}$`],
      { intervalsMs: [1_000] },
    ],
    [
      'another rule that takes it back',
      [...asListed(fragmentFor(alice)), '(root) !/usr/bin/powermetrics'],
      { intervalsMs: [] },
    ],
    ['a later rule that asks for a password', [...asListed(fragmentFor(alice)), password], { intervalsMs: [] }],
    [
      'several commands in one rule',
      [
        String.raw`(root) NOPASSWD: /bin/ls, /usr/bin/powermetrics --samplers cpu_power\,gpu_power -i 1000, PASSWD: ALL`,
      ],
      { intervalsMs: [] },
    ],
    ['a rule as another user', [asListed(fragmentFor(alice))[0]?.replace('root', 'daemon') ?? ''], { intervalsMs: [] }],
    [
      'lines that are wrapped, as where there is no terminal',
      asListed(fragmentFor(alice)).map((rule) => rule.replace(' -i ', ' -i\n        ')),
      { intervalsMs: every },
    ],
    ['another program', ['(root) NOPASSWD: /opt/powermetrics'], { intervalsMs: [] }],
  ])('%s', (_, rules, leave) => {
    expect(leaveIn(listed(...rules))).toEqual(leave)
  })

  test.each(['', 'sudo: a password is required\n', '<html>', '\n    (root'])('no listing at all: %j', (text) => {
    expect(leaveIn(text)).toEqual({ intervalsMs: [] })
  })
})

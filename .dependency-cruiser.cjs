/** Arrows run one way: contract knows nobody, and nobody reaches around the contract. See CONTRIBUTING.md. */
const onlyMayImport = (name, from, allowed, comment) => ({
  name,
  comment,
  severity: 'error',
  from: { path: from },
  to: { path: '^(src|demo|bench|test|tasks)/', pathNot: allowed },
})

const { floors, faces } = require('./rooms.cjs')

const noArrowUp = floors.slice(0, -1).map((rooms, floor) => ({
  name: `no-arrow-up-from-${rooms[0]}`,
  comment: 'what both need lies on the lower floor, or is handed down by the caller',
  severity: 'error',
  from: { path: `^src/agent-core/(${rooms.join('|')})/` },
  to: {
    path: `^src/agent-core/(${floors
      .slice(floor + 1)
      .flat()
      .join('|')})/`,
  },
}))

const behindTheFace = Object.entries(faces).map(([room, files]) => ({
  name: `only-the-face-of-${room}`,
  comment: `what others may import of ${room} is listed in faces`,
  severity: 'error',
  from: { path: '^src/', pathNot: `^src/agent-core/${room}/` },
  to: { path: `^src/agent-core/${room}/`, pathNot: `^src/agent-core/${room}/(${files.join('|')})\\.ts$` },
}))

module.exports = {
  forbidden: [
    onlyMayImport('contract-knows-nobody', '^src/contract/', '^src/contract/', 'contract is types and schemas only'),
    onlyMayImport(
      'core-knows-the-contract',
      '^src/agent-core/',
      '^src/(agent-core|contract)/',
      'agent-core is plain Node',
    ),
    onlyMayImport(
      'carriers-stand-on-the-core',
      '^src/serve/(?!host-agent)',
      '^src/(serve|contract)/|^src/agent-core/(state|util)/|^src/agent-core/agent/agent\\.ts$',
      'serve may use the contract, the loopback helper and the type of the agent',
    ),
    onlyMayImport(
      'hosting-joins-core-and-carriers',
      '^src/serve/host-agent',
      '^src/(serve|contract|agent-core)/',
      'the one place that starts an agent with its carriers, for the command and the app alike',
    ),
    onlyMayImport(
      'installation-is-beside-the-core',
      '^src/installation/(?!uninstall/|migration/)',
      '^src/(installation|contract)/|^src/agent-core/(platform|state|util)/',
      'what is installed on a machine and removed from it knows no agent that runs; cli and main tell it of one',
    ),
    onlyMayImport(
      'uninstall-knows-what-rooms-write',
      '^src/installation/uninstall/',
      '^src/(installation|contract)/|^src/agent-core/(?!agent/agent\\.ts)',
      'only the rooms know what they wrote to disks and clusters; no agent is started to remove it',
    ),
    onlyMayImport(
      'migration-knows-the-core',
      '^src/installation/migration/',
      '^src/(installation|contract|agent-core)/',
      'it reads what another agent left in the cluster and the model store, and judges it as our agent would',
    ),
    onlyMayImport(
      'gateway-is-by-itself',
      '^src/gateway/',
      '^src/(gateway|contract)/',
      'a process of its own that outlives the agent: it knows no cluster and none of the rooms',
    ),
    onlyMayImport(
      'cli-stands-on-top',
      '^src/cli/',
      '^src/(cli|gateway|installation|contract|serve|agent-core)/',
      'cli hosts the core',
    ),
    onlyMayImport(
      'main-stands-on-top',
      '^src/main/',
      '^src/(main|installation|contract|serve|agent-core)/',
      'main hosts the core',
    ),
    onlyMayImport(
      'preload-knows-the-contract',
      '^src/main/preload/',
      '^src/contract/|^src/main/(preload/|ipc-channels)',
      'a sandboxed script has neither Node nor the core',
    ),
    {
      name: 'main-asks-through-the-link',
      comment:
        'main builds the agent by serve/host-agent and then knows only the contract, so that the core can move out of main',
      severity: 'error',
      from: { path: '^src/main/' },
      to: {
        path: '^src/agent-core/(agent/(?!build-info\\.ts$)|(kube|reconcile|models|runtimes|servers|publishing|api|history)/)',
        pathNot: '/default-store\\.ts$',
      },
    },
    onlyMayImport(
      'window-knows-the-contract',
      '^src/renderer/',
      '^src/(renderer|contract)/',
      'the renderer is a page: everything it knows crosses a process boundary',
    ),
    ...noArrowUp,
    ...behindTheFace,
    {
      name: 'no-electron-no-react-in-the-core',
      severity: 'error',
      from: { path: '^src/(agent-core|contract|serve|installation|gateway|cli)/' },
      to: { path: '^(node_modules/)?(electron|react|react-dom)(/|$)' },
    },
    {
      name: 'no-cycles',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'no-type-cycles',
      comment: 'types that two files of the source need lie in a file that knows neither',
      severity: 'error',
      from: { path: '^src/' },
      to: { circular: true },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    // What the package for tests starts with goes on with the built app.
    exclude: { path: '(^|/)(node_modules|out)/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { extensions: ['.ts', '.tsx', '.js', '.cjs', '.mjs'] },
  },
}

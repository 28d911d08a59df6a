/** The pages of docs/ that an answer of the doctor may name; each is fetched when it is read. */
export const pages: Readonly<Record<string, () => Promise<{ readonly default: string }>>> = {
  'cluster.md': () => import('../../docs/cluster.md?raw'),
  'install.md': () => import('../../docs/install.md?raw'),
  'memory.md': () => import('../../docs/memory.md?raw'),
  'models.md': () => import('../../docs/models.md?raw'),
  'operations.md': () => import('../../docs/operations.md?raw'),
  'power.md': () => import('../../docs/power.md?raw'),
  'reaching-models.md': () => import('../../docs/reaching-models.md?raw'),
  'runtimes.md': () => import('../../docs/runtimes.md?raw'),
  'settings.md': () => import('../../docs/settings.md?raw'),
  'troubleshooting.md': () => import('../../docs/troubleshooting.md?raw'),
}

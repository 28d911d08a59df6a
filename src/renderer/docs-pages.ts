/** The pages of docs/ that an answer of the doctor may name; each is fetched when it is read. */
export const pages: Readonly<Record<string, () => Promise<{ readonly default: string }>>> = {
  'doctor.md': () => import('../../docs/doctor.md?raw'),
  'install.md': () => import('../../docs/install.md?raw'),
  'kubernetes-rights.md': () => import('../../docs/kubernetes-rights.md?raw'),
  'memory.md': () => import('../../docs/memory.md?raw'),
  'model-store.md': () => import('../../docs/model-store.md?raw'),
  'operations.md': () => import('../../docs/operations.md?raw'),
  'power.md': () => import('../../docs/power.md?raw'),
  'reaching-models.md': () => import('../../docs/reaching-models.md?raw'),
  'recovery.md': () => import('../../docs/recovery.md?raw'),
  'runtimes.md': () => import('../../docs/runtimes.md?raw'),
  'service.md': () => import('../../docs/service.md?raw'),
  'settings.md': () => import('../../docs/settings.md?raw'),
  'troubleshooting.md': () => import('../../docs/troubleshooting.md?raw'),
}

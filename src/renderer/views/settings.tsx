import { type ReactNode, useEffect, useEffectEvent, useRef, useState } from 'react'
import { Input } from 'react-aria-components/Input'
import { ListBox, ListBoxItem } from 'react-aria-components/ListBox'
import { SearchField } from 'react-aria-components/SearchField'
import { editableRow, settingNames } from '../../contract/settings.ts'
import { type SettingSection, settingSections } from '../../contract/settings-table.ts'
import { Note, ViewPage } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { classNames } from '../components/text.tsx'
import { focusOn } from '../focus.ts'
import {
  type AnySetting,
  changedIn,
  type Draft,
  isFound,
  isOfStart,
  pageOf,
  pageOfId,
  patchOfDraft,
  settingParts,
  withoutSent,
} from '../settings-draft.ts'
import { useApp, useConnected, useSnapshot, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { settingWords } from '../words/settings.ts'
import { Answer } from './answer.tsx'
import { SettingRow } from './setting-field.tsx'
import { SettingsGeneral } from './settings-app.tsx'
import {
  SettingsCluster,
  SettingsModels,
  SettingsNetwork,
  SettingsPower,
  SettingsRuntimes,
} from './settings-sections.tsx'
import styles from './settings.module.css'

const about = 'settings'

/** What a page shows before its settings. */
const places: Readonly<Partial<Record<SettingSection, () => ReactNode>>> = {
  Cluster: SettingsCluster,
  Network: SettingsNetwork,
  Runtimes: SettingsRuntimes,
  Models: SettingsModels,
  Power: SettingsPower,
}

/** Every setting of the agent, on a page for each section. What a person writes is one draft until it is applied. */
export function Settings() {
  const request = useWindow(({ requests }) => requests[about])
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const { answer, problem } = useAnswer({ name: 'settings' }, [request?.state, revision])
  const views = answer?.settings ?? []
  const all: readonly AnySetting[] = [...views, ...(answer?.start ?? [])]
  const changed = changedIn(
    useWindow((state) => state.draft),
    views,
  )
  const [text, setText] = useState('')
  const { page, led, turn } = usePage(all, () => setText(''))
  const isSearching = text.trim() !== ''
  const rows = (settings: readonly AnySetting[]) =>
    settings.map((view) => (
      <SettingRow
        key={view.name}
        view={view}
        written={isOfStart(view) ? undefined : changed[view.name]}
        startFile={answer?.startFile}
        isFound={view.name === led}
      />
    ))
  return (
    <ViewPage id="settings" title={settingWords.title}>
      <Note>{problem}</Note>
      <div className={styles['columns']}>
        <div className={styles['side']}>
          <Search text={text} onChange={setText} />
          <Pages page={isSearching ? undefined : page} onChoose={turn} />
        </div>
        {isSearching ? (
          <Found text={text} all={all} rows={rows} />
        ) : (
          <Page key={page} page={page} all={all} rows={rows} />
        )}
      </div>
      <ApplyBar changed={changed} />
    </ViewPage>
  )
}

/** So long a part is looked for that is drawn only once the agent has answered, in milliseconds. */
const lookLimitMs = 3_000

/** The page that is shown: the one a person chose, or that of the setting they are being led to. */
function usePage(all: readonly AnySetting[], onTurn: () => void) {
  const chosen = useWindow((state) => state.settingPage)
  const goal = useWindow((state) => state.goal)
  const turnTo = useWindow((state) => state.turnSettings)
  const [led, setLed] = useState<string>()
  const goalPage = goal === undefined ? undefined : pageOfId(goal, all)
  const turn = (page: SettingSection, to?: string) => {
    onTurn()
    setLed(to)
    turnTo(page)
  }
  const leave = useEffectEvent(onTurn)
  const arrive = useEffectEvent(turn)
  useEffect(() => {
    if (goal === undefined || goalPage === undefined) return
    leave()
    const since = performance.now()
    const look = () => {
      const isLast = performance.now() - since > lookLimitMs
      if (focusOn(goal, isLast) || isLast) arrive(goalPage, goal)
      else frame = requestAnimationFrame(look)
    }
    let frame = requestAnimationFrame(look)
    return () => cancelAnimationFrame(frame)
  }, [goal, goalPage])
  return { page: goalPage ?? chosen, led, turn }
}

interface SearchProps {
  readonly text: string
  readonly onChange: (text: string) => void
}

/** Command+F, elsewhere Control+F, comes here from everywhere in the settings; Escape clears it. */
function Search({ text, onChange }: SearchProps) {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'f' || !(event.metaKey || event.ctrlKey)) return
      event.preventDefault()
      field.current?.select()
    }
    window.addEventListener('keydown', onKeyDown)
    return () => window.removeEventListener('keydown', onKeyDown)
  }, [])
  return (
    <SearchField aria-label={settingWords.search} value={text} onChange={onChange}>
      <Input ref={field} className={classNames(styles['search'])} placeholder={settingWords.search} />
    </SearchField>
  )
}

interface PagesProps {
  /** Undefined = what was found is shown in place of a page. */
  readonly page: SettingSection | undefined
  readonly onChoose: (page: SettingSection) => void
}

const Pages = ({ page, onChoose }: PagesProps) => (
  <ListBox
    aria-label={settingWords.pageList}
    className={classNames(styles['pages'])}
    layout="grid"
    selectionMode="single"
    selectionBehavior="replace"
    disallowEmptySelection
    selectedKeys={page === undefined ? [] : [page]}
    onSelectionChange={(keys) => {
      const chosen = settingSections.find((one) => keys !== 'all' && keys.has(one))
      if (chosen !== undefined) onChoose(chosen)
    }}
  >
    {settingSections.map((one) => (
      <ListBoxItem key={one} id={one} className={classNames(styles['pageName'])}>
        {one}
      </ListBoxItem>
    ))}
  </ListBox>
)

interface PageProps {
  readonly all: readonly AnySetting[]
  readonly rows: (settings: readonly AnySetting[]) => ReactNode
}

function Page({ page, all, rows }: PageProps & { readonly page: SettingSection }) {
  const app = useApp()
  const Place = places[page]
  const own = all.filter((one) => pageOf(one) === page)
  const first = all.filter((one) => !isOfStart(one) && editableRow(one.name).isFirst)
  return (
    <div role="group" className={styles['page']} aria-label={page}>
      <h3 className={styles['title']}>{page}</h3>
      {page === 'General' && (
        <>
          {first.length > 0 && <Group title={settingWords.first}>{rows(first)}</Group>}
          {app !== undefined && (
            <Group title={settingWords.app}>
              <SettingsGeneral app={app} />
            </Group>
          )}
        </>
      )}
      {(Place !== undefined || own.length > 0) && (
        <div className={styles['fields']}>
          {Place !== undefined && <Place />}
          {rows(own)}
        </div>
      )}
    </div>
  )
}

/** Settings by name, help and flag, with the pages that they are on. */
function Found({ text, all, rows }: PageProps & { readonly text: string }) {
  const app = useApp()
  const leadTo = useWindow((state) => state.leadTo)
  const found = all.filter((setting) => {
    const { title, help, more = '' } = isOfStart(setting) ? setting : editableRow(setting.name)
    return isFound(text, [title, help, more, isOfStart(setting) ? setting.flag : `--${editableRow(setting.name).flag}`])
  })
  const parts = settingParts.filter(
    (part) => (app !== undefined || pageOfId(part, all) !== 'General') && isFound(text, settingWords.parts[part]),
  )
  return (
    <div role="group" className={styles['page']} aria-label={settingWords.search}>
      <h3 className={styles['name']}>
        <span role="status">{settingWords.found(found.length + parts.length)}</span>
      </h3>
      {settingSections.map((page) => {
        const settings = found.filter((setting) => pageOf(setting) === page)
        const here = parts.filter((part) => pageOfId(part, all) === page)
        return settings.length + here.length === 0 ? null : (
          <Group key={page} title={page}>
            {here.map((part) => (
              <div key={part} className={styles['part']}>
                <Button look="link" onPress={() => leadTo(part)}>
                  {settingWords.parts[part][0]}
                </Button>
              </div>
            ))}
            {rows(settings)}
          </Group>
        )
      })}
    </div>
  )
}

function Group({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <div role="group" className={styles['group']} aria-label={title}>
      <h4 className={styles['name']}>{title}</h4>
      <div className={styles['fields']}>{children}</div>
    </div>
  )
}

/** How many changes there are, with a link to each page that has one, or to each value that cannot be applied. */
function ApplyBar({ changed }: { readonly changed: Draft }) {
  const request = useWindow(({ requests }) => requests[about])
  const connected = useConnected()
  const draft = useWindow((state) => state.draft)
  const ask = useWindow((state) => state.ask)
  const write = useWindow((state) => state.write)
  const leadTo = useWindow((state) => state.leadTo)
  const { patch, problems } = patchOfDraft(changed)
  const names = settingNames.filter((name) => changed[name] !== undefined)
  const pages = Map.groupBy(names, (name) => editableRow(name).section)
  const apply = async () => {
    if (await ask(about, { name: 'updateSettings', settings: patch })) write((now) => withoutSent(now, draft))
  }
  const links =
    problems.length > 0
      ? problems.map((name) => ({ name, label: editableRow(name).title }))
      : [...pages].map(([page, [name]]) => ({ name, label: page }))
  return (
    <div className={styles['apply']}>
      <Answer about={about} />
      <div className={styles['buttons']}>
        <div className={styles['changes']}>
          <span role="status">{settingWords.changes(names.length, problems.length)}</span>
          {links.map(
            ({ name, label }) =>
              name !== undefined && (
                <Button key={name} look="link" label={settingWords.show(label)} onPress={() => leadTo(name)}>
                  {label}
                </Button>
              ),
          )}
        </div>
        <Button disabled={names.length === 0} onPress={() => write(() => ({}))}>
          {settingWords.revert}
        </Button>
        <Button
          look="prominent"
          disabled={names.length === 0 || problems.length > 0 || !connected}
          pending={request?.state === 'pending'}
          onPress={() => void apply()}
        >
          {settingWords.apply}
        </Button>
      </div>
    </div>
  )
}

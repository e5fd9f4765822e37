# /// attack
# guarantee = "filesystem_read"
# summary = "Reads the host's password hashes."
# reference = "shadow(5)"
# success = "the file can be read"
# needs = ["root", "shadow"]
# control = { touches = "reads /etc/shadow and throws it away" }
# refusal = { process = "errno EACCES", default = "errno ENOENT" }
# ///

LC_ALL=C cat /etc/shadow 2>&1 >/dev/null | sed 's/.*: //' >message
case "$(cat message)" in
    "") exit 42 ;;
    "No such file or directory") echo "REFUSED ENOENT" && exit 43 ;;
    "Permission denied") echo "REFUSED EACCES" && exit 43 ;;
esac
cat message
exit 44
